#pragma once

#include <string>
#include <vector>

#include "layers/formats/maxtext/keys.hpp"
#include "layers/model_config.hpp"
#include "runtime/io/json_reader.hpp"

namespace millrace::layers {

/// Reads the sizes and the rotation of Gemma 4's full layers, if the block has such keys. `model` has its own sizes and rotation already.
void read_maxtext_full_layers(runtime::JsonReader& reader, const MaxTextFile& file, ModelConfig& model);
void write_maxtext_full_layers(runtime::OrderedJson& json, const MaxTextFile& file, const ModelConfig& model);

/// Reads the inputs of layers and which layers share keys and values, if the block has such keys.
void read_maxtext_per_layer_inputs(runtime::JsonReader& reader, const MaxTextFile& file, ModelConfig& model);
void write_maxtext_per_layer_inputs(runtime::OrderedJson& json, const MaxTextFile& file, const ModelConfig& model);

/// The kinds of the layers under a model_name, repeated.
[[nodiscard]] const std::vector<LayerKind>& kinds_under_name(const MaxTextFile& file, const std::string& name);

/// The model_name under which the block has the layers of this model; the first one if there is none.
[[nodiscard]] std::string name_with_kinds(const MaxTextFile& file, const ModelConfig& model);

}  // namespace millrace::layers
