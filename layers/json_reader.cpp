#include "layers/json_reader.hpp"

#include <algorithm>
#include <array>

namespace millrace::layers {
namespace {

// Keys of transformers no value of which changes what these families compute in training, by the reason why.
constexpr std::array ignored_keys = {
    // Read elsewhere: the class, where there is no model_type, and ids of special tokens.
    "architectures",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    // Where the file comes from, and what else may read it.
    "_name_or_path",
    "auto_map",
    "finetuning_task",
    "prefix",
    "sep_token_id",
    "task_specific_params",
    "tokenizer_class",
    "transformers_version",
    "unsloth_version",
    // How the same sums are arranged, and what is handed out or kept of them.
    "_attn_implementation",
    "attn_implementation",
    "chunk_size_feed_forward",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "pretraining_tp",
    "return_dict",
    "return_dict_in_generate",
    "use_cache",
    // Tensors say their own type; what is computed in is the run's.
    "dtype",
    "torch_dtype",
    "use_bfloat16",
    // Heads other than that of a language model.
    "id2label",
    "label2id",
    "problem_type",
    // Encoders and decoders: these are decoders, whatever the file says.
    "cross_attention_hidden_size",
    "decoder_start_token_id",
    "is_decoder",
    "is_encoder_decoder",
    "tie_encoder_decoder",
    // A loss of TensorFlow's classes.
    "tf_legacy_loss",
    // Generation.
    "bad_words_ids",
    "begin_suppress_tokens",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "length_penalty",
    "max_length",
    "min_length",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "remove_invalid_values",
    "repetition_penalty",
    "suppress_tokens",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
};

}  // namespace

const Json* JsonReader::find(const char* key) {
  known_.emplace_back(key);
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool JsonReader::has(const char* key) {
  known_.emplace_back(key);
  return object_.contains(key);
}

std::string JsonReader::shown(const Json& value) {
  constexpr std::size_t most = 200;
  const std::string text = value.dump(-1, ' ', true);
  return text.size() <= most ? text : text.substr(0, most) + " …";
}

std::optional<std::int64_t> JsonReader::integer(const char* key, std::int64_t least, std::int64_t most) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const bool fits =
      value->is_number_integer() && (!value->is_number_unsigned() || value->get<std::uint64_t>() <= static_cast<std::uint64_t>(most));
  if (!fits || value->get<std::int64_t>() < least || value->get<std::int64_t>() > most) {
    refuse(key, fmt::format("expected an integer from {} to {}", least, most));
  }
  return value->get<std::int64_t>();
}

std::int64_t JsonReader::size(const char* key, std::int64_t most, std::int64_t otherwise) {
  const auto value = integer(key, 1, most);
  if (!value && otherwise > 0) return otherwise;
  if (!value) refuse(key, fmt::format("expected an integer from 1 to {}", most));
  return *value;
}

std::optional<double> JsonReader::number(const char* key, double least, double most) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !(value->get<double>() >= least && value->get<double>() <= most)) {
    refuse(key, fmt::format("expected a number from {} to {}", least, most));
  }
  return value->get<double>();
}

std::optional<bool> JsonReader::boolean(const char* key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse(key, "expected true or false");
  return value->get<bool>();
}

std::optional<std::string> JsonReader::text(const char* key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse(key, "expected a string");
  return value->get<std::string>();
}

std::optional<JsonReader> JsonReader::object(const char* key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) refuse(key, "expected an object");
  return JsonReader(*value, where_, std::string(key) + ".");
}

void JsonReader::warn_of_the_rest(std::vector<std::string>& warnings) const {
  for (const auto& [key, value] : object_.items()) {
    const auto is_key = [name = std::string_view(key)](std::string_view other) { return other == name; };
    if (std::ranges::any_of(known_, is_key) || (prefix_.empty() && std::ranges::any_of(ignored_keys, is_key))) continue;
    warnings.push_back(fmt::format("{}: {}{} is not known and not used", where_, prefix_, key));
  }
}

}  // namespace millrace::layers
