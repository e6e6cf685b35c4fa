#pragma once

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/ngram_options.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// The rows that every token looks up in an n-gram memory (Engram; MaxText's layers/engram.py). The hash of order o (2 … n) at token t is
/// the xor over j < o of tokens[t − j]·multipliers[j], each product modulo 2³²; read as a signed number and taken modulo a table's rows,
/// never negative, it is the row. Before the first token of a row of text stands `padding`; documents of a packed row see each other.
/// Tables lie one behind the other: table i begins at row Σ_{m < i} rows[m].
///
/// tokens i32 [T], T a multiple of the sequence; y i32 [T, tables]. Throws Error(internal) unless there are 2 to max_ngram multipliers, 1
/// to max_ngram_tables tables that the orders share evenly, each with a row, and fewer than 2³¹ rows in all.
void ngram_rows(const ExecutionContext& context, const Tensor& tokens, const NgramOptions& options, const Tensor& y);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(ngram_rows)> ngram_rows("ngram_rows");
}  // namespace table

}  // namespace millrace::kernels
