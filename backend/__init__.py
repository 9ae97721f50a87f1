"""Op catalogue, Backend protocol and the backends: everything that touches array memory."""
