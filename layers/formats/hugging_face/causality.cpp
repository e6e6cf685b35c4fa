#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "layers/formats/hugging_face/config.hpp"

namespace millrace::layers {

/// transformers' masking_utils.py: without is_causal, full layers have no mask, and sliding ones keep the keys with |query − key| <=
/// sliding_window. With use_bidirectional_attention Gemma 3 first makes W // 2 + 1 of the window W, then keeps the keys with |query − key|
/// below it (configuration_gemma3.py, modeling_gemma3.py); with both, those not above it.
void read_causality(runtime::JsonReader& reader, const HuggingFaceClass& file, ModelConfig& model, std::vector<std::string>& warnings) {
  // Python treats null as false.
  const bool causal = !reader.has("is_causal") || reader.boolean("is_causal").value_or(false);
  model.causal = causal;
  if (file.bidirectional == BidirectionalKey::vision) {
    const auto of = reader.text("use_bidirectional_attention");
    if (of && *of != "vision")
      reader.refuse("use_bidirectional_attention", "supported are null and \"vision\", which has no effect on text");
    return;
  }
  const bool both_sides = reader.boolean("use_bidirectional_attention").value_or(false);
  if (!both_sides) return;
  if (file.bidirectional == BidirectionalKey::unread) {
    warnings.push_back(fmt::format("{}: use_bidirectional_attention is not read by transformers in {}, and has no effect here",
                                   reader.where(), file.architecture));
    return;
  }
  if (file.bidirectional == BidirectionalKey::ambiguous && causal)
    reader.refuse("use_bidirectional_attention",
                  fmt::format("which transformers obeys in {} with some implementations of attention and not with eager: expected false, "
                              "or is_causal = false, which all of them obey",
                              file.architecture));
  model.causal = false;
  if (file.bidirectional != BidirectionalKey::halves_window || model.sliding_window == 0) return;
  if (causal && model.sliding_window == 1)
    reader.refuse("sliding_window", "expected 2 or more with use_bidirectional_attention, which halves it");
  model.sliding_window = model.sliding_window / 2 + (causal ? 0 : 1);
}

void write_causality(runtime::OrderedJson& json, const HuggingFaceClass& file, const ModelConfig& model) {
  if (model.causal) return;
  if (file.bidirectional != BidirectionalKey::halves_window) {
    json["is_causal"] = false;
    return;
  }
  json["use_bidirectional_attention"] = true;
  if (model.sliding_window > 0) json["sliding_window"] = 2 * model.sliding_window;
}

}  // namespace millrace::layers
