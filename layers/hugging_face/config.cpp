#include "layers/hugging_face/config.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "kernels/base/check.hpp"

namespace millrace::layers {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* who = "hugging_face.config";
constexpr std::size_t largest_file = 16 << 20;

// Keys that do not change what a Llama computes in training, or that this file reads by other means.
constexpr std::array ignored_keys = {
    "_attn_implementation",
    "_name_or_path",
    "architectures",
    "attn_implementation",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "chunk_size_feed_forward",
    "cross_attention_hidden_size",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "id2label",
    "is_decoder",
    "is_encoder_decoder",
    "label2id",
    "length_penalty",
    "max_length",
    "min_length",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "pruned_heads",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "typical_p",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
};

/// An object of the file, read key by key; what was not asked for is left over.
class Reader {
 public:
  Reader(const Json& object, std::string where, std::string prefix = {})
      : object_(object), where_(std::move(where)), prefix_(std::move(prefix)) {}

  /// Null where the key is missing or null.
  const Json* find(const char* key) {
    known_.emplace_back(key);
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  template <class Wanted>
  [[noreturn]] void refuse(const char* key, const Wanted& wanted) const {
    const auto found = object_.find(key);
    fail(ExitCode::model, who, "{}: {}{} = {}, {}", where_, prefix_, key, found == object_.end() ? "(missing)" : found->dump(), wanted);
  }

  std::optional<std::int64_t> integer(const char* key, std::int64_t least, std::int64_t most) {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    const bool fits =
        value->is_number_integer() && (!value->is_number_unsigned() || value->get<std::uint64_t>() <= static_cast<std::uint64_t>(most));
    if (!fits || value->get<std::int64_t>() < least || value->get<std::int64_t>() > most) {
      refuse(key, fmt::format("wanted an integer from {} to {}", least, most));
    }
    return value->get<std::int64_t>();
  }

  std::int64_t size(const char* key, std::int64_t most) {
    const auto value = integer(key, 1, most);
    if (!value) refuse(key, fmt::format("wanted an integer from 1 to {}", most));
    return *value;
  }

  std::optional<double> number(const char* key, double least, double most) {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number() || !(value->get<double>() >= least && value->get<double>() <= most)) {
      refuse(key, fmt::format("wanted a number from {} to {}", least, most));
    }
    return value->get<double>();
  }

  std::optional<bool> boolean(const char* key) {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_boolean()) refuse(key, "wanted true or false");
    return value->get<bool>();
  }

  std::optional<std::string> text(const char* key) {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) refuse(key, "wanted a string");
    return value->get<std::string>();
  }

  std::optional<Reader> object(const char* key) {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_object()) refuse(key, "wanted an object");
    return Reader(*value, where_, std::string(key) + ".");
  }

  void warn_of_the_rest(std::vector<std::string>& warnings) const {
    for (const auto& [key, value] : object_.items()) {
      const auto is_key = [name = std::string_view(key)](std::string_view other) { return other == name; };
      if (std::ranges::any_of(known_, is_key) || (prefix_.empty() && std::ranges::any_of(ignored_keys, is_key))) continue;
      warnings.push_back(fmt::format("{}: {}{} is not known and not used", where_, prefix_, key));
    }
  }

  [[nodiscard]] const std::string& where() const { return where_; }

 private:
  const Json& object_;
  std::string where_;
  std::string prefix_;
  std::vector<std::string> known_;
};

void read_family(Reader& reader, ModelConfig& model) {
  constexpr const char* supported = "supported is \"llama\"";
  if (const auto type = reader.text("model_type")) {
    if (*type != "llama") reader.refuse("model_type", supported);
  } else {
    const Json* architectures = reader.find("architectures");
    const bool llama =
        architectures != nullptr && architectures->is_array() && !architectures->empty() && (*architectures)[0] == "LlamaForCausalLM";
    if (!llama) reader.refuse("model_type", supported);
  }
  model.family = "llama";
}

void refuse_what_is_not_computed(Reader& reader, std::vector<std::string>& warnings) {
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    if (reader.boolean(key).value_or(false)) reader.refuse(key, "supported is false");
  }
  // Gemma's spelling comes first where it is present, as in transformers.
  const char* activation_key = reader.find("hidden_activation") != nullptr ? "hidden_activation" : "hidden_act";
  const std::string activation = reader.text(activation_key).value_or("silu");
  if (activation != "silu" && activation != "swish") reader.refuse(activation_key, "supported is \"silu\"");
  if (reader.find("quantization_config") != nullptr)
    reader.refuse("quantization_config", "supported are fp32, fp16 and bf16 tensors without quantization");
  if (reader.number("partial_rotary_factor", 0, 1).value_or(1.0) != 1.0) reader.refuse("partial_rotary_factor", "supported is 1");
  if (reader.number("attention_dropout", 0, 1).value_or(0.0) != 0.0) {
    warnings.push_back(fmt::format("{}: attention_dropout is not applied", reader.where()));
  }
}

void read_scaling(Reader& scaling, ModelConfig& model) {
  RopeConfig& rope = model.rope;
  const char* kind_key = scaling.find("rope_type") != nullptr ? "rope_type" : "type";
  const std::string kind = scaling.text(kind_key).value_or("default");
  (void)scaling.find("type");
  if (kind == "linear") {
    rope.kind = RopeKind::linear;
  } else if (kind == "llama3") {
    rope.kind = RopeKind::llama3;
  } else if (kind != "default") {
    scaling.refuse(kind_key, "supported are \"default\", \"linear\" and \"llama3\"");
  }
  rope.theta = scaling.number("rope_theta", 1.0, 1e15).value_or(rope.theta);
  if (scaling.number("partial_rotary_factor", 0, 1).value_or(1.0) != 1.0) scaling.refuse("partial_rotary_factor", "supported is 1");
  if (rope.kind == RopeKind::none) return;

  const auto factor = scaling.number("factor", 1.0, 1e9);
  if (!factor) scaling.refuse("factor", "wanted a number of 1 or more");
  rope.factor = *factor;
  if (rope.kind != RopeKind::llama3) return;
  const auto low = scaling.number("low_freq_factor", 1e-9, 1e9);
  const auto high = scaling.number("high_freq_factor", 1e-9, 1e9);
  if (!low) scaling.refuse("low_freq_factor", "wanted a number above 0");
  if (!high || *high <= *low) scaling.refuse("high_freq_factor", "wanted a number above low_freq_factor");
  rope.low_freq_factor = *low;
  rope.high_freq_factor = *high;
  rope.original_max_position = scaling.integer("original_max_position_embeddings", 1, 1LL << 40).value_or(model.max_position_embeddings);
}

/// transformers 5 keeps everything in rope_parameters; 4 keeps rope_theta outside and the rest in rope_scaling.
void read_rope(Reader& reader, ModelConfig& model, std::vector<std::string>& warnings) {
  const auto outer_theta = reader.number("rope_theta", 1.0, 1e15);
  model.rope.theta = outer_theta.value_or(10000.0);
  auto parameters = reader.object("rope_parameters");
  auto scaling = reader.object("rope_scaling");
  auto& chosen = parameters ? parameters : scaling;
  if (!chosen) return;
  read_scaling(*chosen, model);
  chosen->warn_of_the_rest(warnings);
  if (parameters && outer_theta && *outer_theta != model.rope.theta) {
    warnings.push_back(
        fmt::format("{}: rope_theta = {} is overruled by rope_parameters.rope_theta = {}", reader.where(), *outer_theta, model.rope.theta));
  }
}

void read_sizes(Reader& reader, ModelConfig& model) {
  model.vocab_size = reader.size("vocab_size", 1 << 26);
  model.hidden_size = reader.size("hidden_size", 1 << 20);
  model.intermediate_size = reader.size("intermediate_size", 1 << 24);
  model.layers = reader.size("num_hidden_layers", 1 << 16);
  model.heads = reader.integer("num_attention_heads", 1, 1 << 16).value_or(32);
  model.kv_heads = reader.integer("num_key_value_heads", 1, 1 << 16).value_or(model.heads);
  if (model.heads % model.kv_heads != 0) {
    reader.refuse("num_key_value_heads", fmt::format("which does not divide num_attention_heads = {}", model.heads));
  }
  if (const auto head_dim = reader.integer("head_dim", 1, 1 << 16)) {
    model.head_dim = *head_dim;
  } else {
    if (model.hidden_size % model.heads != 0) {
      reader.refuse("num_attention_heads",
                    fmt::format("which does not divide hidden_size = {} (and head_dim is not given)", model.hidden_size));
    }
    model.head_dim = model.hidden_size / model.heads;
  }
  if (model.head_dim % 2 != 0) {
    reader.refuse("head_dim", fmt::format("which makes heads of {}; wanted an even number (rotary embedding turns pairs)", model.head_dim));
  }
  model.rms_norm_eps = reader.number("rms_norm_eps", 0.0, 1.0).value_or(1e-6);
  model.max_position_embeddings = reader.integer("max_position_embeddings", 1, 1LL << 40).value_or(2048);
  model.tie_word_embeddings = reader.boolean("tie_word_embeddings").value_or(false);
  model.initializer_range = reader.number("initializer_range", 0.0, 1e3).value_or(0.02);
}

}  // namespace

HuggingFaceConfig parse_hugging_face_config(std::string_view text, const std::string& where) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {
    fail(ExitCode::model, who, "{}: not JSON: {}", where, error.what());
  }
  MILLRACE_CHECK(json.is_object(), ExitCode::model, who, "{}: a JSON {}, wanted an object", where, json.type_name());
  HuggingFaceConfig result;
  Reader reader(json, where);
  read_family(reader, result.model);
  refuse_what_is_not_computed(reader, result.warnings);
  read_sizes(reader, result.model);
  read_rope(reader, result.model, result.warnings);
  reader.warn_of_the_rest(result.warnings);
  return result;
}

HuggingFaceConfig read_hugging_face_config(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::is_directory(path, error) ? path / "config.json" : path;
  const auto size = std::filesystem::file_size(file, error);
  MILLRACE_CHECK(!error, ExitCode::model, who, "{}: cannot be read: {}", file.string(), error.message());
  MILLRACE_CHECK(size <= largest_file, ExitCode::model, who, "{}: {} bytes, wanted at most {}", file.string(), size, largest_file);
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  MILLRACE_CHECK(!stream.bad() && text.size() == size, ExitCode::model, who, "{}: cannot be read", file.string());
  return parse_hugging_face_config(text, file.string());
}

std::string hugging_face_config_text(const ModelConfig& model, std::string_view dtype) {
  const RopeConfig& rope = model.rope;
  Json scaling;
  scaling["rope_type"] = to_string(rope.kind);
  if (rope.kind != RopeKind::none) scaling["factor"] = rope.factor;
  if (rope.kind == RopeKind::llama3) {
    scaling["low_freq_factor"] = rope.low_freq_factor;
    scaling["high_freq_factor"] = rope.high_freq_factor;
    scaling["original_max_position_embeddings"] = rope.original_max_position;
  }
  Json json;
  json["architectures"] = {"LlamaForCausalLM"};
  json["model_type"] = model.family;
  json["vocab_size"] = model.vocab_size;
  json["hidden_size"] = model.hidden_size;
  json["intermediate_size"] = model.intermediate_size;
  json["num_hidden_layers"] = model.layers;
  json["num_attention_heads"] = model.heads;
  json["num_key_value_heads"] = model.kv_heads;
  json["head_dim"] = model.head_dim;
  json["hidden_act"] = "silu";
  json["rms_norm_eps"] = model.rms_norm_eps;
  json["attention_bias"] = false;
  json["mlp_bias"] = false;
  json["attention_dropout"] = 0.0;
  json["max_position_embeddings"] = model.max_position_embeddings;
  json["tie_word_embeddings"] = model.tie_word_embeddings;
  json["initializer_range"] = model.initializer_range;
  json["rope_theta"] = rope.theta;
  json["rope_scaling"] = rope.kind == RopeKind::none ? Json(nullptr) : scaling;
  json["rope_parameters"] = scaling;
  json["rope_parameters"]["rope_theta"] = rope.theta;
  // Ids that the library would take from its class (1 and 2) are tokens of our vocabularies.
  json["bos_token_id"] = nullptr;
  json["eos_token_id"] = nullptr;
  json["pad_token_id"] = nullptr;
  json["dtype"] = dtype;
  json["torch_dtype"] = dtype;
  return json.dump(2) + "\n";
}

}  // namespace millrace::layers
