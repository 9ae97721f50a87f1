"""Doors to other formats: ONNX graphs, and tensors as bytes."""
