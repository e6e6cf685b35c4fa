#include "kernels/score_maxima.hpp"

#include <algorithm>
#include <limits>

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

void score_maxima(const Tensor& q, const Tensor& k, const Tensor& segments, AttentionOptions options, const Tensor& maxima, Scratch) {
  const std::int64_t tokens = q.shape[0], heads = q.shape[1], kv_heads = k.shape[1], width = q.shape[2];
  const auto* segment = segments.as<std::int32_t>();
  for (std::int64_t h = 0; h < heads; ++h) {
    double largest = -std::numeric_limits<double>::infinity();
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::int64_t place = t % options.sequence, row = t - place;
      const SeenKeys seen = seen_keys(options, place);
      for (std::int64_t u = row + std::max<std::int64_t>(seen.begin, 0); u < row + std::min(seen.end, options.sequence); ++u) {
        if (segment[u] != segment[t]) continue;
        double sum = 0;
        for (std::int64_t d = 0; d < width; ++d)
          sum += double{load(q, (t * heads + h) * width + d)} * load(k, (u * kv_heads + h / (heads / kv_heads)) * width + d);
        largest = std::max(largest, double{options.scale} * sum);
      }
    }
    maxima.as<double>()[h] = largest;
  }
}

const InTable score_maxima_in_table[] = {
    {Backend::reference, table::score_maxima, without_context<score_maxima>},
};

}  // namespace
}  // namespace millrace::kernels::reference
