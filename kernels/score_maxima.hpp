#pragma once

#include <cstddef>

#include "kernels/attention.hpp"
#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// The largest score of every query head, which QK-clip compares with its threshold (Kimi K2, arXiv 2507.20534, section 2.1):
///   maxima[h] = max over tokens t, and over the keys u that t sees, of scale · q[t, h] · k[u, h / (H / K)].
/// q [T, H, D], k [T, K, D], f32 or bf16; segments i32 [T]; maxima f64 [H]. The options say what a query sees, as in attention_forward;
/// soft_cap and block must be 0. Products are summed in fp32 in an order that depends on D alone, and a maximum on no order at all, so the
/// bits depend neither on threads nor on how rows are divided into calls. Throws Error(config) if H is not a multiple of K.
void score_maxima(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& segments, AttentionOptions options,
                  const Tensor& maxima, Scratch scratch);

/// Scratch for a call; q's shape is [T, H, D].
[[nodiscard]] std::size_t score_maxima_scratch_bytes(const Shape& q, AttentionOptions options, const Processor& processor);

/// The keys of a row [begin, end) that the query at place `query` of the row may see; segments may exclude some of them.
struct SeenKeys {
  std::int64_t begin, end;
};
[[nodiscard, gnu::always_inline]] constexpr SeenKeys seen_keys(const AttentionOptions& options, std::int64_t query) {
  std::int64_t begin = 0, end = options.causal ? query + 1 : options.sequence;
  if (options.window > 0) {
    begin = begin < query - options.window + 1 ? query - options.window + 1 : begin;
    end = end < query + options.window ? end : query + options.window;
  }
  if (options.chunk > 0) {
    const std::int64_t first = query / options.chunk * options.chunk;
    begin = begin < first ? first : begin;
    end = end < first + options.chunk ? end : first + options.chunk;
  }
  return {begin, end};
}

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(score_maxima)> score_maxima("score_maxima");
inline constinit Kernel<decltype(score_maxima_scratch_bytes)> score_maxima_scratch_bytes("score_maxima_scratch_bytes");
}  // namespace table

}  // namespace millrace::kernels
