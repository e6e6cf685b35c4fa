#pragma once

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/tensor.hpp"

/// Rows of tokens in the order of their experts, as grouped products read them: T tokens with K experts each make R = T·K rows, and the
/// rows of one expert are neighbours. Megatron calls gather_rows and combine_rows permute and unpermute.
namespace millrace::kernels {

/// Sorts the choices of all tokens by expert; those of one expert keep the order of tokens, then of choices. experts i32 [T, K], each
/// within [0, E) → places i32 [T, K]: the row of each choice; offsets i32 [E + 1]: expert e has the rows from offsets[e] to before
/// offsets[e + 1]. Throws Error(internal), which names position and value, for an expert outside [0, E); a device reports it when its work
/// is done.
void sort_by_expert(const ExecutionContext& context, const Tensor& experts, const Tensor& places, const Tensor& offsets);

/// rows[places[t, k]] = x[t], or weights[t, k] · x[t], computed in fp32. x [T, D] and rows [T·K, D] of one dtype; places i32 [T, K];
/// weights f32 [T, K] or null. Here and below a place outside [0, T·K) is reported as an expert is above; the places of sort_by_expert are
/// all different, so that every row is written.
void gather_rows(const ExecutionContext& context, const Tensor& x, const Tensor& places, const Tensor* weights, const Tensor& rows);

/// y[t] = Σ_k rows[places[t, k]], or Σ_k weights[t, k] · rows[places[t, k]]: summed in fp32 in the order of choices, rounded once.
void combine_rows(const ExecutionContext& context, const Tensor& rows, const Tensor& places, const Tensor* weights, const Tensor& y);

/// products[t, k] = ⟨x[t], rows[places[t, k]]⟩ f32 [T, K]: the gradient of the weights of both functions above. Summed in fp32; the order
/// depends on D alone.
void row_products(const ExecutionContext& context, const Tensor& x, const Tensor& rows, const Tensor& places, const Tensor& products);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(sort_by_expert)> sort_by_expert("sort_by_expert");
inline constinit Kernel<decltype(gather_rows)> gather_rows("gather_rows");
inline constinit Kernel<decltype(combine_rows)> combine_rows("combine_rows");
inline constinit Kernel<decltype(row_products)> row_products("row_products");
}  // namespace table

}  // namespace millrace::kernels
