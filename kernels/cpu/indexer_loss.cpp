#include "kernels/indexer_loss.hpp"

#include <algorithm>

#include "kernels/base/buffer.hpp"
#include "kernels/cpu/aligned_scratch.hpp"
#include "kernels/cpu/indexer_loss_loops.hpp"
#include "kernels/cpu/items_in_turn.hpp"

namespace millrace::kernels::cpu {
namespace {

/// Tiles of this many queries of a row are dealt out to `kParts` sums of key gradients, which are then added in order: threads work on
/// parts, and the order of the sums does not depend on their number. Interleaved tiles have the same work, although later queries have
/// more keys.
constexpr std::int64_t kQueryTile = 8, kParts = 8;

template <class T>
IndexerLossTokens<T> tokens_of(const IndexerLossOperands& in, IndexerLossOptions options) {
  return {.q = in.q.as<T>(),
          .k = in.k.as<T>(),
          .index_q = in.index_q.as<T>(),
          .index_k = in.index_k.as<T>(),
          .index_weights = in.index_weights.as<float>(),
          .segments = in.segments.as<std::int32_t>(),
          .keys = in.keys == nullptr ? nullptr : in.keys->as<std::int32_t>(),
          .sequence = options.sequence,
          .heads = in.q.shape[1],
          .kv_heads = in.k.shape[1],
          .width = in.q.shape[2],
          .length = options.list_length,
          .index_heads = in.index_q.shape[1],
          .index_width = in.index_q.shape[2],
          .scale = options.scale,
          .index_scale = options.index_scale};
}

std::int64_t padded_keys(IndexerLossOptions options) {
  return padded_by_16(options.list_length > 0 ? options.list_length : options.sequence);
}
/// Floats of a thread for a token, and for the products of its gradients.
std::int64_t token_floats(const Shape& q, const Shape& index_q, IndexerLossOptions options) {
  return per_thread(4 * padded_keys(options) + padded_by_16(std::max(q[2], index_q[2])));
}
std::int64_t product_floats(const Shape& index_q, IndexerLossOptions options) { return per_thread(index_q[1] * padded_keys(options)); }
/// Floats of one sum of key gradients.
std::int64_t part_floats(const Shape& index_q, IndexerLossOptions options) {
  return per_thread(options.sequence * padded_by_16(index_q[2]));
}
/// Bytes of the terms of all tokens, in front of the rest.
std::size_t term_bytes(const Shape& q) { return align_up(static_cast<std::size_t>(q[0]) * sizeof(double)); }

double sum_of(const double* terms, std::int64_t count) {
  double sum = 0;
  for (std::int64_t t = 0; t < count; ++t) sum += terms[t];
  return sum;
}

void indexer_loss(const ExecutionContext& context, const IndexerLossOperands& in, IndexerLossOptions options, const Tensor& loss,
                  Scratch scratch) {
  auto* const terms = reinterpret_cast<double*>(aligned_begin(scratch));
  auto* const memory = reinterpret_cast<float*>(aligned_begin(scratch) + term_bytes(in.q.shape));
  const std::int64_t tokens = in.q.shape[0], floats = token_floats(in.q.shape, in.index_q.shape, options);
  const auto call = [&]<class T>(T, auto* term) {
    const IndexerLossTokens<T> at = tokens_of<T>(in, options);
    for_items_in_turn(context.team(), tokens, [&](std::int64_t t, int thread) { terms[t] = term(at, t, memory + thread * floats); });
  };
  if (in.q.dtype == DType::f32)
    call(float{}, pick_indexer_term_f32());
  else
    call(BFloat16{}, pick_indexer_term_bf16());
  loss.as<double>()[0] = sum_of(terms, tokens);
}

/// d_index_k of a row: its parts added in order.
template <class T>
void add_parts(ThreadTeam& team, const float* parts, std::int64_t part, std::int64_t sequence, std::int64_t width, T* to) {
  const std::int64_t padded = padded_by_16(width);
  team.for_ranges(sequence, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t u = begin; u < end; ++u)
      for (std::int64_t d = 0; d < width; ++d) {
        float sum = parts[u * padded + d];
        for (std::int64_t i = 1; i < kParts; ++i) sum += parts[i * part + u * padded + d];
        to[u * width + d] = from_float<T>(sum);
      }
  });
}

void indexer_loss_input_gradient(const ExecutionContext& context, const IndexerLossOperands& in, const Tensor& scale,
                                 IndexerLossOptions options, const Tensor& d_index_q, const Tensor& d_index_k,
                                 const Tensor& d_index_weights, const Tensor& loss, Scratch scratch) {
  auto* const terms = reinterpret_cast<double*>(aligned_begin(scratch));
  auto* const parts = reinterpret_cast<float*>(aligned_begin(scratch) + term_bytes(in.q.shape));
  const std::int64_t tokens = in.q.shape[0], sequence = options.sequence, part = part_floats(in.index_q.shape, options);
  auto* const memory = parts + kParts * part;
  const std::int64_t floats = token_floats(in.q.shape, in.index_q.shape, options), products = product_floats(in.index_q.shape, options);
  const auto call = [&]<class T>(T, auto* gradient) {
    const IndexerLossTokens<T> at = tokens_of<T>(in, options);
    for (std::int64_t first = 0; first < tokens; first += sequence) {
      for_items_in_turn(context.team(), kParts, [&](std::int64_t item, int thread) {
        float* own = memory + thread * (floats + products);
        const IndexerLossGradients<T> to{d_index_q.as<T>(), d_index_weights.as<float>(), parts + item * part, scale.as<float>()[0]};
        std::fill_n(to.key_sums, part, 0.0F);
        for (std::int64_t tile = item * kQueryTile; tile < sequence; tile += kParts * kQueryTile)
          for (std::int64_t t = first + tile; t < first + std::min(tile + kQueryTile, sequence); ++t)
            terms[t] = gradient(at, t, to, own, own + floats);
      });
      add_parts(context.team(), parts, part, sequence, in.index_q.shape[2], d_index_k.as<T>() + first * in.index_q.shape[2]);
    }
  };
  if (in.q.dtype == DType::f32)
    call(float{}, pick_indexer_gradient_f32());
  else
    call(BFloat16{}, pick_indexer_gradient_bf16());
  loss.as<double>()[0] = sum_of(terms, tokens);
}

std::size_t indexer_loss_scratch_bytes(const Shape& q, const Shape& index_q, DType /*dtype*/, IndexerLossOptions options,
                                       const Processor& processor) {
  const std::int64_t floats =
      kParts * part_floats(index_q, options) + processor.threads * (token_floats(q, index_q, options) + product_floats(index_q, options));
  return term_bytes(q) + static_cast<std::size_t>(floats) * sizeof(float) + kAlignment;
}

const InTable in_table[] = {
    {Backend::cpu, table::indexer_loss, indexer_loss},
    {Backend::cpu, table::indexer_loss_input_gradient, indexer_loss_input_gradient},
    {Backend::cpu, table::indexer_loss_scratch_bytes, indexer_loss_scratch_bytes},
};

}  // namespace
}  // namespace millrace::kernels::cpu
