#include "layers/json_reader.hpp"

#include <algorithm>
#include <array>

namespace millrace::layers {
namespace {

// Keys that do not change what a model computes in training, or that this file reads by other means.
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
    refuse(key, fmt::format("wanted an integer from {} to {}", least, most));
  }
  return value->get<std::int64_t>();
}

std::int64_t JsonReader::size(const char* key, std::int64_t most, std::int64_t otherwise) {
  const auto value = integer(key, 1, most);
  if (!value && otherwise > 0) return otherwise;
  if (!value) refuse(key, fmt::format("wanted an integer from 1 to {}", most));
  return *value;
}

std::optional<double> JsonReader::number(const char* key, double least, double most) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !(value->get<double>() >= least && value->get<double>() <= most)) {
    refuse(key, fmt::format("wanted a number from {} to {}", least, most));
  }
  return value->get<double>();
}

std::optional<bool> JsonReader::boolean(const char* key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse(key, "wanted true or false");
  return value->get<bool>();
}

std::optional<std::string> JsonReader::text(const char* key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse(key, "wanted a string");
  return value->get<std::string>();
}

std::optional<JsonReader> JsonReader::object(const char* key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) refuse(key, "wanted an object");
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
