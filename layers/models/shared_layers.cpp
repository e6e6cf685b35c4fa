#include "layers/models/shared_layers.hpp"

#include <string_view>

#include "kernels/base/check.hpp"

namespace millrace::layers {
namespace {

constexpr const char* shared_layers_component = "layers.models";

LayerKind kind_of(const ModelConfig& config, std::int64_t index) {
  return config.layer_kinds.empty() ? LayerKind::full : config.layer_kinds[static_cast<std::size_t>(index)];
}

}  // namespace

std::optional<int> layer_with_shared_keys(const ModelConfig& config, int index) {
  const std::int64_t own = config.layers - config.kv_shared_layers;
  if (index < own) return std::nullopt;
  for (std::int64_t i = own - 1; i >= 0; --i)
    if (kind_of(config, i) == kind_of(config, index)) return static_cast<int>(i);
  fail(ExitCode::model, shared_layers_component,
       "{}: kv_shared_layers = {}, which leaves layer {} no earlier layer of its kind to share with", config.family,
       config.kv_shared_layers, index);
}

std::optional<PerLayerInputsSpec> per_layer_inputs_of(const ModelConfig& config, kernels::Activation activation) {
  if (config.per_layer_input_size == 0) return std::nullopt;
  return PerLayerInputsSpec{.vocab_size = config.per_layer_vocab_size, .width = config.per_layer_input_size, .activation = activation};
}

void check_layer_sizes(const ModelConfig& config) {
  const auto expect = [&](bool fits, const char* name, std::int64_t value, std::string_view what) {
    MILLRACE_CHECK(fits, ExitCode::model, shared_layers_component, "{}: {} = {}, expected {}", config.family, name, value, what);
  };
  expect(config.global_head_dim >= 0 && config.global_head_dim % 2 == 0, "global_head_dim", config.global_head_dim, "an even number");
  expect(config.global_kv_heads >= 0 && (config.global_kv_heads == 0 || config.heads % config.global_kv_heads == 0), "global_kv_heads",
         config.global_kv_heads, "0, or a divisor of heads");
  expect(config.kv_shared_layers >= 0 && (config.kv_shared_layers == 0 || config.kv_shared_layers < config.layers), "kv_shared_layers",
         config.kv_shared_layers, "0 to one less than the layers");
  expect(config.per_layer_input_size >= 0, "per_layer_input_size", config.per_layer_input_size, "0 or more");
  expect(config.per_layer_input_size == 0 || config.per_layer_vocab_size >= 1, "per_layer_vocab_size", config.per_layer_vocab_size,
         "1 or more with per_layer_input_size");
  MILLRACE_CHECK(!config.double_wide_mlp || config.kv_shared_layers > 0, ExitCode::model, shared_layers_component,
                 "{}: double_wide_mlp without kv_shared_layers, expected 1 or more", config.family);
}

}  // namespace millrace::layers
