#include "kernels/choose_keys.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/base/torch_topk.hpp"
#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

/// A key that a query sees.
struct SeenKey {
  double score;
  std::int32_t place;
};

/// Whether a is chosen before b.
bool better(const SeenKey& a, const SeenKey& b) {
  if (std::isnan(a.score) != std::isnan(b.score)) return std::isnan(a.score);
  if (a.score != b.score && !std::isnan(a.score)) return a.score > b.score;
  return a.place < b.place;
}

/// Moves the keys that torch.topk takes from the whole row to the front. Behind `seen` there is room for the row's entries.
void choose_as_torch(SeenKey* seen, std::int64_t count, ChooseKeysOptions options) {
  auto* const entries = reinterpret_cast<ScoredPlace*>(seen + options.sequence);
  for (std::int64_t u = 0; u < options.sequence; ++u) entries[u] = {-std::numeric_limits<float>::infinity(), static_cast<std::int32_t>(u)};
  for (std::int64_t i = 0; i < count; ++i) entries[seen[i].place].score = static_cast<float>(seen[i].score);
  torch_topk(entries, options.sequence, options.keys_per_query);
  for (std::int64_t i = 0; i < options.keys_per_query; ++i) seen[i] = {entries[i].score, entries[i].place};
}

double score_of(const Tensor& q, const Tensor& k, const Tensor& weights, std::int64_t t, std::int64_t u, ChooseKeysOptions options) {
  const std::int64_t heads = q.shape[1], width = q.shape[2];
  double sum = 0;
  for (std::int64_t h = 0; h < heads; ++h) {
    double dot = 0;
    for (std::int64_t d = 0; d < width; ++d) dot += double{load(q, (t * heads + h) * width + d)} * load(k, u * width + d);
    sum += double{weights.as<float>()[t * heads + h]} * (dot < 0 ? 0.0 : dot);  // a NaN stays
  }
  return static_cast<float>(options.scale * sum);
}

void choose_keys(const Tensor& q, const Tensor& k, const Tensor& weights, const Tensor& segments, ChooseKeysOptions options,
                 const Tensor& keys, Scratch scratch) {
  const auto* segment = segments.as<std::int32_t>();
  auto* const seen = reinterpret_cast<SeenKey*>(scratch.data());
  for (std::int64_t t = 0; t < q.shape[0]; ++t) {
    const std::int64_t begin = t / options.sequence * options.sequence;
    std::int64_t count = 0;
    for (std::int64_t u = begin; u <= t; ++u)
      if (segment[u] == segment[t]) seen[count++] = {score_of(q, k, weights, t, u, options), static_cast<std::int32_t>(u - begin)};
    const std::int64_t chosen = std::min(count, options.keys_per_query);
    if (options.torch_ties && count > chosen)
      choose_as_torch(seen, count, options);
    else
      std::sort(seen, seen + count, better);
    std::sort(seen, seen + chosen, [](const SeenKey& a, const SeenKey& b) { return a.place < b.place; });
    auto* list = keys.as<std::int32_t>() + t * options.keys_per_query;
    for (std::int64_t i = 0; i < options.keys_per_query; ++i) list[i] = i < chosen ? seen[i].place : -1;
  }
}

std::size_t choose_keys_scratch_bytes(const Shape& /*q*/, DType /*dtype*/, ChooseKeysOptions options, const Processor& /*processor*/) {
  return static_cast<std::size_t>(options.sequence) * (sizeof(SeenKey) + sizeof(ScoredPlace));
}

const InTable choose_keys_in_table[] = {
    {Backend::reference, table::choose_keys, without_context<choose_keys>},
    {Backend::reference, table::choose_keys_scratch_bytes, choose_keys_scratch_bytes},
};

}  // namespace
}  // namespace millrace::kernels::reference
