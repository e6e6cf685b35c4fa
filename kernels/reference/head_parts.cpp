#include "kernels/head_parts.hpp"

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

// Calls element(index in the whole, part, index in the part, whether the part is shared) for every feature of every head; heads are the
// innermost.
template <class Element>
void for_features(const Tensor& whole, HeadPartsOptions options, std::span<const Tensor> parts, Element&& element) {
  for_head_parts(whole, options, parts, [&](const Tensor& part, const HeadPart& place) {
    const std::int64_t heads = place.heads, width = place.width;
    for (std::int64_t t = 0; t < whole.shape[0]; ++t)
      for (std::int64_t d = 0; d < width; ++d)
        for (std::int64_t h = 0; h < heads; ++h)
          element((t * heads + h) * place.head_width + place.offset + d, part, place.shared ? t * width + d : (t * heads + h) * width + d,
                  place.shared, h);
  });
}

void join_heads(std::span<const Tensor> parts, HeadPartsOptions options, const Tensor& y) {
  for_features(y, options, parts,
               [&](std::int64_t to, const Tensor& part, std::int64_t from, bool, std::int64_t) { store(y, to, load(part, from)); });
}

void split_heads(const Tensor& x, HeadPartsOptions options, std::span<const Tensor> parts) {
  double sum = 0;
  for_features(x, options, parts, [&](std::int64_t from, const Tensor& part, std::int64_t to, bool shared, std::int64_t head) {
    sum = shared && head > 0 ? sum + double{load(x, from)} : double{load(x, from)};
    store(part, to, static_cast<float>(sum));
  });
}

const InTable head_parts_in_table[] = {
    {Backend::reference, table::join_heads, without_context<join_heads>},
    {Backend::reference, table::split_heads, without_context<split_heads>},
};

}  // namespace
}  // namespace millrace::kernels::reference
