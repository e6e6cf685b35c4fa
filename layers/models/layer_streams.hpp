#pragma once

#include <optional>
#include <vector>

#include "layers/attention/dot_product.hpp"
#include "layers/layer_spec.hpp"
#include "layers/streams.hpp"
#include "runtime/program/builder.hpp"

namespace millrace::layers {

/// The stream of per-layer inputs (layers/per_layer_inputs.hpp).
inline constexpr const char* per_layer_stream = "per_layer_inputs";

/// The streams before layer `index` that follow from the specs: the residual one; that of per-layer inputs, the parts of this layer and of
/// those behind it, if the model has such inputs; and for each layer d before this one whose keys and values this one or a later one
/// attends to, "keys_d" and "values_d" [T, kv_heads·head_dim].
[[nodiscard]] std::vector<StreamSpec> streams_of_specs(const ModelSpec& model, int index);

/// The streams within one layer of a family whose streams are these.
class LayerStreams {
 public:
  LayerStreams(runtime::ProgramBuilder& builder, const ModelSpec& model, int index, const Streams& in);

  [[nodiscard]] runtime::ValueId hidden() const { return in_.at(runtime::hidden_port); }
  /// The layer's own part of the per-layer inputs [T, width]; invalid if the model has none.
  [[nodiscard]] runtime::ValueId own_input() const noexcept { return own_input_; }
  /// Where attention finds the keys and values of another layer, or leaves its own for those behind it.
  [[nodiscard]] KeysAndValues& keys_and_values() noexcept { return keys_and_values_; }
  /// The streams before the next layer, `hidden` among them.
  [[nodiscard]] Streams out(runtime::ValueId hidden) const;

 private:
  const ModelSpec& model_;
  int index_;
  const Streams& in_;
  runtime::ValueId own_input_, later_inputs_;
  KeysAndValues keys_and_values_;
};

}  // namespace millrace::layers
