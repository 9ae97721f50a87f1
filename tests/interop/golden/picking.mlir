module @einloom {
  func.func public @main(%arg0: tensor<4x3xf64>, %arg1: tensor<2xi32>, %arg2: tensor<i64>) -> (tensor<2xi1>, tensor<3xi64>) {
    %0 = "stablehlo.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64>
    %1 = "stablehlo.dynamic_slice"(%arg0, %arg2, %0) {slice_sizes = array<i64: 1, 3>} : (tensor<4x3xf64>, tensor<i64>, tensor<i64>) -> tensor<1x3xf64>
    %2 = "stablehlo.reshape"(%1) : (tensor<1x3xf64>) -> tensor<3xf64>
    %3 = "stablehlo.convert"(%arg1) : (tensor<2xi32>) -> tensor<2xi64>
    %4 = "stablehlo.constant"() {value = dense<0> : tensor<2xi64>} : () -> tensor<2xi64>
    %5 = "stablehlo.compare"(%3, %4) {comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type SIGNED>} : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi1>
    %6 = "stablehlo.constant"() {value = dense<3> : tensor<2xi64>} : () -> tensor<2xi64>
    %7 = "stablehlo.add"(%3, %6) : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
    %8 = "stablehlo.select"(%5, %7, %3) : (tensor<2xi1>, tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
    %9 = "stablehlo.gather"(%2, %8) {dimension_numbers = #stablehlo.gather<offset_dims = [], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>} : (tensor<3xf64>, tensor<2xi64>) -> tensor<2xf64>
    %10 = "stablehlo.iota"() {iota_dimension = 0 : i64} : () -> tensor<3xi64>
    %11, %12 = "stablehlo.sort"(%2, %10) ({
    ^bb0(%a0: tensor<f64>, %a1: tensor<f64>, %a2: tensor<i64>, %a3: tensor<i64>):
      %r0 = "stablehlo.compare"(%a0, %a1) {comparison_direction = #stablehlo<comparison_direction GT>, compare_type = #stablehlo<comparison_type FLOAT>} : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %r1 = "stablehlo.compare"(%a1, %a1) {comparison_direction = #stablehlo<comparison_direction NE>, compare_type = #stablehlo<comparison_type FLOAT>} : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %r2 = "stablehlo.compare"(%a0, %a0) {comparison_direction = #stablehlo<comparison_direction EQ>, compare_type = #stablehlo<comparison_type FLOAT>} : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %r3 = "stablehlo.and"(%r1, %r2) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %r4 = "stablehlo.or"(%r0, %r3) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      "stablehlo.return"(%r4) : (tensor<i1>) -> ()
    }) {dimension = 0 : i64, is_stable = true} : (tensor<3xf64>, tensor<3xi64>) -> (tensor<3xf64>, tensor<3xi64>)
    %13 = "stablehlo.compare"(%9, %9) {comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type FLOAT>} : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
    "func.return"(%13, %12) : (tensor<2xi1>, tensor<3xi64>) -> ()
  }
}
