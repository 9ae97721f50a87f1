module @einloom {
  func.func public @main(%arg0: tensor<3x3xcomplex<f64>>, %arg1: tensor<3x2xcomplex<f64>>) -> (tensor<3x2xcomplex<f64>>) {
    %0 = "stablehlo.cholesky"(%arg0) {lower = true} : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
    %1 = "stablehlo.iota"() {iota_dimension = 0 : i64} : () -> tensor<3x3xi64>
    %2 = "stablehlo.iota"() {iota_dimension = 1 : i64} : () -> tensor<3x3xi64>
    %3 = "stablehlo.subtract"(%2, %1) : (tensor<3x3xi64>, tensor<3x3xi64>) -> tensor<3x3xi64>
    %4 = "stablehlo.constant"() {value = dense<0> : tensor<3x3xi64>} : () -> tensor<3x3xi64>
    %5 = "stablehlo.compare"(%3, %4) {comparison_direction = #stablehlo<comparison_direction LE>, compare_type = #stablehlo<comparison_type SIGNED>} : (tensor<3x3xi64>, tensor<3x3xi64>) -> tensor<3x3xi1>
    %6 = "stablehlo.constant"() {value = dense<(0.0, 0.0)> : tensor<3x3xcomplex<f64>>} : () -> tensor<3x3xcomplex<f64>>
    %7 = "stablehlo.select"(%5, %0, %6) : (tensor<3x3xi1>, tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
    %8 = "stablehlo.triangular_solve"(%7, %arg1) {left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose ADJOINT>} : (tensor<3x3xcomplex<f64>>, tensor<3x2xcomplex<f64>>) -> tensor<3x2xcomplex<f64>>
    %9 = "stablehlo.transpose"(%8) {permutation = array<i64: 1, 0>} : (tensor<3x2xcomplex<f64>>) -> tensor<2x3xcomplex<f64>>
    %10 = "stablehlo.fft"(%9) {fft_type = #stablehlo<fft_type IFFT>, fft_length = array<i64: 3>} : (tensor<2x3xcomplex<f64>>) -> tensor<2x3xcomplex<f64>>
    %11 = "stablehlo.transpose"(%10) {permutation = array<i64: 1, 0>} : (tensor<2x3xcomplex<f64>>) -> tensor<3x2xcomplex<f64>>
    %12 = "stablehlo.constant"() {value = dense<(1.5, 0.0)> : tensor<3x2xcomplex<f64>>} : () -> tensor<3x2xcomplex<f64>>
    %13 = "stablehlo.multiply"(%11, %12) : (tensor<3x2xcomplex<f64>>, tensor<3x2xcomplex<f64>>) -> tensor<3x2xcomplex<f64>>
    "func.return"(%13) : (tensor<3x2xcomplex<f64>>) -> ()
  }
}
