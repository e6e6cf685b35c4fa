#include "kernels/score_maxima.hpp"

#include <algorithm>

#include "kernels/base/buffer.hpp"
#include "kernels/cpu/aligned_scratch.hpp"
#include "kernels/cpu/items_in_turn.hpp"
#include "kernels/cpu/score_maxima_loops.hpp"

namespace millrace::kernels::cpu {
namespace {

/// Floats for the keys of one head and row, in columns.
std::int64_t key_floats(std::int64_t width, AttentionOptions options) { return per_thread(width * ((options.sequence + 15) / 16 * 16)); }
/// Floats for the maximum of every row and head.
std::int64_t result_floats(const Shape& q, AttentionOptions options) { return per_thread(q[0] / options.sequence * q[1]); }

void score_maxima(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& segments, AttentionOptions options,
                  const Tensor& maxima, Scratch scratch) {
  const std::int64_t heads = q.shape[1], rows = q.shape[0] / options.sequence, floats = key_floats(q.shape[2], options);
  auto* const found = reinterpret_cast<float*>(aligned_begin(scratch));
  auto* const memory = found + result_floats(q.shape, options);
  const auto call = [&]<class T>(T, auto* maximum) {
    const ScoreMaximaOperands<T> at{
        q.as<T>(), k.as<T>(), segments.as<std::int32_t>(), options, heads, k.shape[1], q.shape[2],
    };
    for_items_in_turn(context.team(), rows * heads, [&](std::int64_t item, int thread) {
      found[item] = maximum(at, item / heads, item % heads, memory + thread * floats);
    });
  };
  if (q.dtype == DType::f32)
    call(float{}, pick_score_maximum_f32());
  else
    call(BFloat16{}, pick_score_maximum_bf16());
  for (std::int64_t h = 0; h < heads; ++h) {
    float largest = found[h];
    for (std::int64_t row = 1; row < rows; ++row) largest = std::max(largest, found[row * heads + h]);
    maxima.as<double>()[h] = static_cast<double>(largest);
  }
}

std::size_t score_maxima_scratch_bytes(const Shape& q, AttentionOptions options, const Processor& processor) {
  const std::int64_t floats = result_floats(q, options) + processor.threads * key_floats(q[2], options);
  return static_cast<std::size_t>(floats) * sizeof(float) + kAlignment;
}

const InTable in_table[] = {
    {Backend::cpu, table::score_maxima, score_maxima},
    {Backend::cpu, table::score_maxima_scratch_bytes, score_maxima_scratch_bytes},
};

}  // namespace
}  // namespace millrace::kernels::cpu
