#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/shape.hpp"

/// MaxText's scanned layers (scan_layers = true): the weights of all layers of one kind are one tensor, which has the layer as its second
/// axis (param_scan_axis = 1). Programs and runs hold every layer's weights apart.
namespace millrace::layers {

/// Where a layer's tensor lies among those of its kind.
struct ScannedTensor {
  std::string name;       // of the tensor of all layers: "decoder.moe_layers.mlp.wi_0.kernel"
  std::size_t layer = 0;  // the place in it
};
/// Where "decoder.moe_layers_1.mlp.wi_0.kernel" lies; nothing for a tensor that is not one of several layers.
[[nodiscard]] std::optional<ScannedTensor> scanned_tensor(std::string_view tensor);

/// The shape of the tensor of `layers` layers, from that of one.
[[nodiscard]] kernels::Shape scanned_shape(const kernels::Shape& one, std::size_t layers);

/// The elements of one layer, whose shape is `one`, from those of all layers.
[[nodiscard]] std::vector<float> scanned_layer(std::span<const float> all, const kernels::Shape& one, std::size_t layers,
                                               std::size_t layer);

}  // namespace millrace::layers
