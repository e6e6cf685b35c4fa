#include "layers/formats/maxtext/moba.hpp"

#include <nlohmann/json.hpp>

namespace millrace::layers {

void read_moba(runtime::JsonReader& reader, ModelConfig& model) {
  if (!reader.boolean("moba").value_or(false)) return;
  if (reader.text("attention").value_or("autoselected") != "dot_product")
    reader.refuse(reader.has("attention") ? "attention" : "moba", "supported with moba = true is attention = \"dot_product\"");
  model.moba_chunk_size = reader.size("moba_chunk_size", 1LL << 40, 1024);
  model.moba_topk = reader.size("moba_topk", 1LL << 40, 8);
}

void write_moba(runtime::OrderedJson& json, const ModelConfig& model) {
  json["moba"] = model.moba_chunk_size > 0;
  if (model.moba_chunk_size == 0) return;
  json["attention"] = "dot_product";
  json["moba_chunk_size"] = model.moba_chunk_size;
  json["moba_topk"] = model.moba_topk;
}

}  // namespace millrace::layers
