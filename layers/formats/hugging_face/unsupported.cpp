#include "layers/formats/hugging_face/unsupported.hpp"

#include <nlohmann/json.hpp>
#include <string_view>

namespace millrace::layers {

void refuse_what_no_family_computes(runtime::JsonReader& reader, bool sizes_by_layer) {
  if (reader.find("quantization_config") != nullptr)
    reader.refuse("quantization_config", "supported are fp32, fp16 and bf16 tensors without quantization");
  // Layers, or heads of layers, with sizes of their own.
  for (const char* key : {"per_layer_config", "pruned_heads"}) {
    if (sizes_by_layer && key == std::string_view("per_layer_config")) continue;  // read_full_layers() reads it
    const runtime::Json* sizes = reader.find(key);
    if (sizes != nullptr && !sizes->empty()) reader.refuse(key, "supported is null: all layers have the same sizes");
  }
  // transformers 4 unties a tied head for it.
  if (reader.boolean("torchscript").value_or(false)) reader.refuse("torchscript", "supported is false");
}

}  // namespace millrace::layers
