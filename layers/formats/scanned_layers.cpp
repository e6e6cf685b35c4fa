#include "layers/formats/scanned_layers.hpp"

#include <algorithm>
#include <charconv>

namespace millrace::layers {

std::optional<ScannedTensor> scanned_tensor(std::string_view tensor) {
  constexpr std::string_view word = "layers_";
  const auto begin = tensor.find(word);
  if (begin == std::string_view::npos || !tensor.starts_with("decoder.")) return std::nullopt;
  const char* const number = tensor.data() + begin + word.size();
  std::size_t layer = 0;
  const auto [end, error] = std::from_chars(number, tensor.data() + tensor.size(), layer);
  if (error != std::errc() || end == tensor.data() + tensor.size() || *end != '.') return std::nullopt;
  std::string name(tensor.substr(0, begin + word.size() - 1));
  name += tensor.substr(static_cast<std::size_t>(end - tensor.data()));
  return ScannedTensor{std::move(name), layer};
}

kernels::Shape scanned_shape(const kernels::Shape& one, std::size_t layers) {
  kernels::Shape shape{one.dimension(0), static_cast<std::int64_t>(layers)};
  for (std::size_t axis = 1; axis < one.rank(); ++axis) shape.push_back(one.dimension(axis));
  return shape;
}

std::vector<float> scanned_layer(std::span<const float> all, const kernels::Shape& one, std::size_t layers, std::size_t layer) {
  const auto outer = static_cast<std::size_t>(one[0]), inner = static_cast<std::size_t>(one.elements()) / outer;
  std::vector<float> elements(outer * inner);
  for (std::size_t i = 0; i < outer; ++i)
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>((i * layers + layer) * inner), inner,
                elements.begin() + static_cast<std::ptrdiff_t>(i * inner));
  return elements;
}

}  // namespace millrace::layers
