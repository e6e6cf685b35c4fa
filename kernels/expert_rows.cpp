#include "kernels/expert_rows.hpp"

#include <limits>

#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

/// Checks places [T, K] and rows [T·K, D] against tokens [T, D] of the same dtype. If the host cannot read the places, the kernel checks
/// them.
void check_rows_and_places(const char* component, const ExecutionContext& context, const char* name, const Tensor& tokens,
                           const Tensor& places, const Tensor& rows) {
  check_rank(component, name, tokens, 2);
  check_rank(component, "places", places, 2);
  check_operand(component, name, tokens, tokens.shape, {DType::f32, DType::bf16});
  check_operand(component, "places", places, {tokens.shape[0], places.shape[1]}, {DType::i32});
  MILLRACE_CHECK(places.shape[1] >= 1, ExitCode::internal, component, "places is {}, expected 1 or more choices of a token",
                 to_string(places.shape));
  check_operand(component, "rows", rows, {places.elements(), tokens.shape[1]}, {tokens.dtype});
  if (context.host_readable()) check_indices(component, "place", places, places.elements());
}

void check_weights(const char* component, const Tensor& places, const Tensor* weights) {
  if (weights != nullptr) check_operand(component, "weights", *weights, places.shape, {DType::f32});
}

}  // namespace

void sort_by_expert(const ExecutionContext& context, const Tensor& experts, const Tensor& places, const Tensor& offsets) {
  constexpr const char* component = "kernels.sort_by_expert";
  check_rank(component, "experts", experts, 2);
  check_rank(component, "offsets", offsets, 1);
  check_operand(component, "experts", experts, experts.shape, {DType::i32});
  check_operand(component, "places", places, experts.shape, {DType::i32});
  check_operand(component, "offsets", offsets, offsets.shape, {DType::i32});
  MILLRACE_CHECK(offsets.shape[0] >= 2, ExitCode::internal, component, "offsets is {}, expected 2 or more entries",
                 to_string(offsets.shape));
  MILLRACE_CHECK(experts.elements() <= std::numeric_limits<std::int32_t>::max(), ExitCode::internal, component,
                 "experts is {}, expected fewer than 2^31 choices", to_string(experts.shape));
  if (context.host_readable()) check_indices(component, "expert", experts, offsets.shape[0] - 1);
  table::sort_by_expert(context, experts, places, offsets);
}

void gather_rows(const ExecutionContext& context, const Tensor& x, const Tensor& places, const Tensor* weights, const Tensor& rows) {
  constexpr const char* component = "kernels.gather_rows";
  check_rows_and_places(component, context, "x", x, places, rows);
  check_weights(component, places, weights);
  table::gather_rows(context, x, places, weights, rows);
}

void combine_rows(const ExecutionContext& context, const Tensor& rows, const Tensor& places, const Tensor* weights, const Tensor& y) {
  constexpr const char* component = "kernels.combine_rows";
  check_rows_and_places(component, context, "y", y, places, rows);
  check_weights(component, places, weights);
  table::combine_rows(context, rows, places, weights, y);
}

void row_products(const ExecutionContext& context, const Tensor& x, const Tensor& rows, const Tensor& places, const Tensor& products) {
  constexpr const char* component = "kernels.row_products";
  check_rows_and_places(component, context, "x", x, places, rows);
  check_operand(component, "products", products, places.shape, {DType::f32});
  table::row_products(context, x, rows, places, products);
}

}  // namespace millrace::kernels
