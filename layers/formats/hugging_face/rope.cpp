#include "layers/formats/hugging_face/rope.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "layers/rotary.hpp"

namespace millrace::layers {
namespace {

using runtime::Json;
using runtime::JsonReader;
using runtime::OrderedJson;

constexpr double largest_theta = 1e15;

/// Reads rope_type, or its former name type. If both exist, transformers 4 reads one of them and 5 the other, so they must agree.
RopeKind read_kind(JsonReader& dictionary) {
  const auto name = dictionary.text("rope_type"), first_name = dictionary.text("type");
  if (name && first_name && *name != *first_name) dictionary.refuse("type", fmt::format("which contradicts rope_type = \"{}\"", *name));
  const char* key = name ? "rope_type" : "type";
  const std::string kind = name ? *name : first_name.value_or("default");
  for (const RopeKind known : all_rope_kinds) {
    if (kind == to_string(known)) return known;
  }
  dictionary.refuse(key, "supported are \"default\", \"linear\", \"llama3\", \"yarn\", \"dynamic\", \"longrope\" and \"proportional\"");
}

/// The factor of cos and sin: given directly, or as DeepSeek's pair of scales; 0 means the paper's value 0.1 ln(factor) + 1.
double read_attention_factor(JsonReader& dictionary, double factor) {
  const auto given = dictionary.number("attention_factor", 1e-9, 1e9);
  // The bounds ensure that the ratio of the two is in the range of attention_factor.
  const double scale = dictionary.number("mscale", 0, 1e6).value_or(0), all = dictionary.number("mscale_all_dim", 0, 1e6).value_or(0);
  if (given) return *given;
  if (scale == 0 || all == 0) return 0;
  const auto scaled = [&](double by) { return factor <= 1 ? 1.0 : 0.1 * by * std::log(factor) + 1.0; };
  return scaled(scale) / scaled(all);
}

void read_yarn(JsonReader& dictionary, RopeConfig& rope) {
  // Python treats 0 as missing.
  const auto beta = [&](const char* key, double missing) {
    const double value = dictionary.number(key, 0, 1e9).value_or(0);
    return value > 0 ? value : missing;
  };
  rope.beta_fast = beta("beta_fast", 32.0);
  rope.beta_slow = beta("beta_slow", 1.0);
  if (rope.beta_fast < rope.beta_slow) dictionary.refuse("beta_fast", fmt::format("expected beta_slow = {} or more", rope.beta_slow));
  // Python treats null as false.
  rope.truncate = !dictionary.has("truncate") || dictionary.boolean("truncate").value_or(false);
  rope.attention_factor = read_attention_factor(dictionary, rope.factor);
}

void read_llama3(JsonReader& dictionary, RopeConfig& rope) {
  const auto low = dictionary.number("low_freq_factor", 1e-9, 1e9), high = dictionary.number("high_freq_factor", 1e-9, 1e9);
  if (!low) dictionary.refuse("low_freq_factor", "expected a number above 0");
  if (!high || *high < *low) dictionary.refuse("high_freq_factor", "expected low_freq_factor or more");
  rope.low_freq_factor = *low;
  rope.high_freq_factor = *high;
}

void read_longrope(JsonReader& dictionary, std::int64_t head_dim, RopeConfig& rope) {
  const auto factors = [&](const char* key) {
    const auto pairs = static_cast<std::size_t>(rotary_pairs(rope, head_dim));
    auto list = dictionary.numbers(key, pairs, 1e-9, 1e9);
    if (!list) dictionary.refuse(key, fmt::format("expected a list of {} numbers, one per rotary pair", pairs));
    return *std::move(list);
  };
  rope.short_factors = factors("short_factor");
  rope.long_factors = factors("long_factor");
  rope.attention_factor = dictionary.number("attention_factor", 1e-9, 1e9).value_or(0);
}

/// The scaling factor. YaRN's may be null and longrope's missing: then it follows from the context lengths.
double read_factor(JsonReader& dictionary, const RopeConfig& rope, const ModelConfig& model) {
  const auto factor = dictionary.number("factor", 1.0, 1e9);
  if (factor) return *factor;
  const bool implied = rope.kind == RopeKind::longrope || (rope.kind == RopeKind::yarn && dictionary.has("factor"));
  if (implied && model.max_position_embeddings >= rope.original_max_position)
    return static_cast<double>(model.max_position_embeddings) / static_cast<double>(rope.original_max_position);
  dictionary.refuse("factor", "expected a number of 1 or more");
}

/// The rotation of a part of every head, in a class whose heads are rotated in part: there must be one pair, and yarn's ramp has no value
/// for the last pair of an odd number of features (modeling_rope_utils.py).
void check_partial(JsonReader& dictionary, const ModelConfig& model, const RopeConfig& rope) {
  if (rope.kind != RopeKind::proportional && rotary_pairs(rope, model.head_dim) == 0)
    dictionary.refuse("partial_rotary_factor", fmt::format("which rotates no feature of head_dim = {}: expected more", model.head_dim));
  if (rope.kind == RopeKind::yarn && rotary_dim(rope, model.head_dim) % 2 != 0)
    dictionary.refuse("partial_rotary_factor",
                      fmt::format("which is {} of head_dim = {} features, an odd number that transformers cannot compute with rope_type = "
                                  "\"yarn\"",
                                  rotary_dim(rope, model.head_dim), model.head_dim));
}

/// M-RoPE's keys. Sections say how many pairs are turned by time, height and width, which are equal for the tokens of a text.
void read_sections(JsonReader& dictionary) {
  if (const Json* sections = dictionary.find("mrope_section")) {
    const auto is_count = [](const Json& entry) { return entry.is_number_integer() && entry.get<std::int64_t>() >= 0; };
    if (!sections->is_array() || sections->size() != 3 || !std::ranges::all_of(*sections, is_count))
      dictionary.refuse("mrope_section", "expected three numbers of pairs: of time, height and width");
  }
  if (!dictionary.boolean("mrope_interleaved").value_or(true))
    dictionary.refuse("mrope_interleaved", "supported is true: transformers interleaves the sections in this family");
}

/// The fraction of a head that is rotated. In version 5 the key may also be outside the dictionary. transformers' scaled kinds spread their
/// frequencies over int(head_dim · fraction) features, but the classes of these families multiply whole heads by the cosines, so a fraction
/// runs only if the pairs fill the head; yarn's ramp has no value for the last pair of an odd number (modeling_rope_utils.py).
void read_proportion(JsonReader& dictionary, const RopeDefaults& family, const ModelConfig& model, std::optional<double> outer,
                     RopeConfig& rope, std::vector<std::string>& warnings) {
  const bool partial = family.proportion > 0;
  const double part = dictionary.number("partial_rotary_factor", 0, 1).value_or(outer.value_or(partial ? family.proportion : 1.0));
  if (partial) {
    rope.proportion = part;
    check_partial(dictionary, model, rope);
    return;
  }
  if (part != 1.0 && rope.kind == RopeKind::none) {
    warnings.push_back(
        fmt::format("{}: partial_rotary_factor = {} is not read by transformers where rope_type is \"default\"", dictionary.where(), part));
    return;
  }
  rope.proportion = part;
  if (part == 1.0 || rope.kind == RopeKind::proportional) return;
  if (rope.kind == RopeKind::yarn || 2 * rotary_pairs(rope, model.head_dim) != model.head_dim)
    dictionary.refuse("partial_rotary_factor",
                      fmt::format("which transformers cannot compute with rope_type = \"{}\" in this family", to_string(rope.kind)));
}

/// Values from outside the dictionary.
struct Outside {
  double theta = 0;                    // the base if the dictionary has none
  std::optional<double> partial = {};  // partial_rotary_factor
  bool scales_scores = false;          // as in RopeDefaults
};

RopeConfig read_rotation(JsonReader& dictionary, const RopeDefaults& family, const ModelConfig& model, const Outside& outside,
                         std::vector<std::string>& warnings) {
  RopeConfig rope;
  rope.kind = read_kind(dictionary);
  rope.theta = dictionary.number("rope_theta", 1.0, largest_theta).value_or(outside.theta);
  read_proportion(dictionary, family, model, outside.partial, rope, warnings);
  if (family.sections) read_sections(dictionary);
  if (rope.kind == RopeKind::none) return rope;
  if (outside.scales_scores) rope.mscale_all_dim = dictionary.number("mscale_all_dim", 0, 1e6).value_or(0);
  if (rope.kind == RopeKind::proportional) {
    rope.factor = dictionary.number("factor", 1.0, 1e9).value_or(1.0);
    return rope;
  }
  if (rope.kind == RopeKind::dynamic) rope.original_max_position = model.max_position_embeddings;
  if (rope.kind == RopeKind::llama3 || rope.kind == RopeKind::yarn || rope.kind == RopeKind::longrope)
    rope.original_max_position =
        dictionary.integer("original_max_position_embeddings", 1, 1LL << 40).value_or(model.max_position_embeddings);
  rope.factor = read_factor(dictionary, rope, model);
  if (rope.kind == RopeKind::yarn) read_yarn(dictionary, rope);
  if (rope.kind == RopeKind::llama3) read_llama3(dictionary, rope);
  if (rope.kind == RopeKind::longrope) read_longrope(dictionary, model.head_dim, rope);
  return rope;
}

/// Whether two rotations are equal, even if the file expresses them differently.
bool same_rotation(RopeConfig a, RopeConfig b) {
  a.attention_factor = rotary_factor(a);
  b.attention_factor = rotary_factor(b);
  return a == b;
}

/// A dictionary of the file, unless it is empty: {} counts as null, as in transformers.
std::optional<JsonReader> dictionary_of(JsonReader& reader, const char* key) {
  auto dictionary = reader.object(key);
  if (dictionary && reader.find(key)->empty()) dictionary.reset();
  return dictionary;
}

void warn_of_theta(const JsonReader& reader, const char* key, const std::optional<double>& outer, const char* inner_key, double inner,
                   std::vector<std::string>& warnings) {
  if (outer && *outer != inner)
    warnings.push_back(fmt::format("{}: {} = {} is overridden by {} = {}", reader.where(), key, *outer, inner_key, inner));
}

void read_one_rope(JsonReader& reader, const RopeDefaults& family, ModelConfig& model, std::vector<std::string>& warnings) {
  const auto outer = reader.number("rope_theta", 1.0, largest_theta);
  const Outside outside{outer.value_or(family.theta), reader.number("partial_rotary_factor", 0, 1), family.scales_scores};
  auto parameters = dictionary_of(reader, "rope_parameters"), scaling = dictionary_of(reader, "rope_scaling");
  if (parameters && (parameters->has("full_attention") || parameters->has("sliding_attention")))
    reader.refuse("rope_parameters", "expected one rotation, since all layers of this family share it");
  if (family.scaled.kind != RopeKind::none && !parameters && !scaling) {
    if (reader.has("rope_scaling"))
      reader.refuse("rope_scaling",
                    fmt::format("with which transformers 4 scales nothing, and 5 has its class's {}: expected a dictionary with rope_type",
                                to_string(family.scaled.kind)));
    model.rope = family.scaled;
  }
  model.rope.theta = outside.theta;
  if (family.proportion > 0) model.rope.proportion = outside.partial.value_or(family.proportion);
  if (parameters) {
    model.rope = read_rotation(*parameters, family, model, outside, warnings);
    parameters->warn_of_the_rest(warnings);
  }
  if (scaling) {
    const RopeConfig other = model.rope;
    model.rope = read_rotation(*scaling, family, model, outside, warnings);
    scaling->warn_of_the_rest(warnings);
    if (parameters && !same_rotation(model.rope, other))
      reader.refuse("rope_scaling",
                    fmt::format("which contradicts rope_parameters = {}: transformers takes rope_scaling, with rope_theta = {}; "
                                "expected the same in both, or one of them",
                                JsonReader::shown(*reader.find("rope_parameters")), model.rope.theta));
    if (outer && *outer != model.rope.theta)
      scaling->refuse(
          "rope_theta",
          fmt::format("which contradicts rope_theta = {}, which transformers 4 reads; transformers 5 reads this value", *outer));
  } else {
    warn_of_theta(reader, "rope_theta", outer, "rope_parameters.rope_theta", model.rope.theta, warnings);
  }
  if (model.rope.kind != RopeKind::llama3 && model.rope.kind != RopeKind::yarn && model.rope.kind != RopeKind::longrope) return;
  const auto length = reader.integer("original_max_position_embeddings", 1, 1LL << 40);
  if (length && *length != model.rope.original_max_position)
    reader.refuse("original_max_position_embeddings",
                  fmt::format("which contradicts the value in the rotation, {}, which transformers 4 reads; transformers 5 reads this one",
                              model.rope.original_max_position));
}

/// rope_parameters.full_attention with what rope_scaling adds to it.
Json full_rotation(JsonReader& reader, const Json* full, const Json* scaling) {
  Json merged = full != nullptr ? *full : Json::object();
  if (scaling == nullptr) return merged;
  for (const auto& [key, value] : scaling->items()) {
    const auto there = merged.find(key);
    if (value.is_null()) continue;
    if (there != merged.end() && !there->is_null() && *there != value)
      reader.refuse("rope_scaling",
                    fmt::format("which contradicts rope_parameters.full_attention.{} = {}: expected the same in both, or one of "
                                "them",
                                key, JsonReader::shown(*there)));
    merged[key] = value;
  }
  return merged;
}

/// transformers 5 reads truncate beside the two dictionaries and not in them; 4 reads it in rope_scaling.
void read_truncate(JsonReader& full, std::optional<JsonReader>& parameters, RopeConfig& rope) {
  const bool beside = !parameters || !parameters->has("truncate") || parameters->boolean("truncate").value_or(false);
  if (full.has("truncate") && rope.truncate != beside)
    full.refuse(
        "truncate",
        fmt::format("transformers 5 reads rope_parameters.truncate, here {}, and 4 reads rope_scaling.truncate: expected the same in both",
                    beside));
  rope.truncate = beside;
}

void read_two_ropes(JsonReader& reader, const RopeDefaults& family, ModelConfig& model, std::vector<std::string>& warnings) {
  const auto outer = reader.number("rope_theta", 1.0, largest_theta);
  std::optional<double> outer_local;
  if (family.local_theta > 0) outer_local = reader.number("rope_local_base_freq", 1.0, largest_theta);
  auto parameters = dictionary_of(reader, "rope_parameters"), scaling = dictionary_of(reader, "rope_scaling");
  // transformers ignores everything else outside of the two dictionaries, too.
  if (parameters && !parameters->has("full_attention") && !parameters->has("sliding_attention"))
    reader.refuse("rope_parameters", "expected full_attention and sliding_attention in it: transformers reads nothing else there");

  const char* place = scaling ? "rope_scaling" : "rope_parameters.full_attention";
  if (parameters) static_cast<void>(parameters->object("full_attention"));
  const Json merged =
      full_rotation(reader, parameters ? parameters->find("full_attention") : nullptr, scaling ? reader.find("rope_scaling") : nullptr);
  JsonReader full(merged, reader.where(), ExitCode::model, place);
  const auto partial = reader.number("partial_rotary_factor", 0, 1);
  model.rope = read_rotation(full, family, model, {outer.value_or(family.theta), partial}, warnings);
  if (model.rope.kind == RopeKind::yarn) read_truncate(full, parameters, model.rope);
  full.warn_of_the_rest(warnings);
  if (scaling && outer && *outer != model.rope.theta)
    full.refuse("rope_theta",
                fmt::format("which contradicts rope_theta = {}, which transformers 4 reads; transformers 5 reads this value", *outer));
  warn_of_theta(reader, "rope_theta", outer, "rope_parameters.full_attention.rope_theta", model.rope.theta, warnings);

  RopeConfig local{.theta = family.local_theta > 0 ? outer_local.value_or(family.local_theta) : outer.value_or(family.theta)};
  const double default_local = local.theta;
  auto sliding = parameters ? parameters->object("sliding_attention") : std::nullopt;
  if (sliding) {
    local = read_rotation(*sliding, family, model, {default_local, partial}, warnings);
    if (local.kind == RopeKind::yarn) read_truncate(*sliding, parameters, local);
    sliding->warn_of_the_rest(warnings);
    warn_of_theta(reader, "rope_local_base_freq", outer_local, "rope_parameters.sliding_attention.rope_theta", local.theta, warnings);
  }
  const bool has_theta = sliding && sliding->find("rope_theta") != nullptr;
  if (!has_theta && family.local_theta == 0 && default_local != family.theta)
    warnings.push_back(
        fmt::format("{}: rope_theta = {} also applies to sliding-window layers, as in transformers 4; version 5 uses {} there",
                    reader.where(), default_local, family.theta));
  model.rope_local = local;
}

/// The rotations of a class that reads no key of version 4. Those of full layers may turn heads of another size.
void read_rope_parameters(JsonReader& reader, const RopeDefaults& family, ModelConfig& model, std::vector<std::string>& warnings) {
  model.rope = family.scaled;
  model.rope.theta = family.theta;
  model.rope_local = {.theta = family.local_theta};
  auto parameters = reader.object("rope_parameters");
  if (!parameters) return;
  const auto read = [&](const char* kind, double theta, const ModelConfig& of) {
    auto dictionary = parameters->object(kind);
    if (!dictionary) reader.refuse("rope_parameters", fmt::format("expected {} in it", kind));
    const RopeConfig rope = read_rotation(*dictionary, family, of, {theta, std::nullopt}, warnings);
    if (dictionary->has("truncate")) dictionary->refuse("truncate", "which transformers does not read here");
    dictionary->warn_of_the_rest(warnings);
    return rope;
  };
  ModelConfig full = model;
  if (model.global_head_dim > 0) full.head_dim = model.global_head_dim;
  model.rope = read("full_attention", family.theta, full);
  if (!model.layer_kinds.empty())
    model.rope_local = read("sliding_attention", family.local_theta, model);
  else
    static_cast<void>(parameters->find("sliding_attention"));
  parameters->warn_of_the_rest(warnings);
}

OrderedJson rotation_json(const RopeConfig& rope) {
  OrderedJson json;
  json["rope_type"] = to_string(rope.kind);
  // transformers warns of a factor beside proportional frequencies.
  const bool stretched = rope.kind != RopeKind::proportional || rope.factor != 1.0;
  if (rope.kind != RopeKind::none && stretched) json["factor"] = rope.factor;
  if (rope.kind == RopeKind::llama3) {
    json["low_freq_factor"] = rope.low_freq_factor;
    json["high_freq_factor"] = rope.high_freq_factor;
  }
  if (rope.kind == RopeKind::llama3 || rope.kind == RopeKind::yarn || rope.kind == RopeKind::longrope)
    json["original_max_position_embeddings"] = rope.original_max_position;
  if (rope.kind == RopeKind::proportional || rope.proportion != 1.0) json["partial_rotary_factor"] = rope.proportion;
  if (rope.kind == RopeKind::longrope) {
    json["short_factor"] = rope.short_factors;
    json["long_factor"] = rope.long_factors;
    if (rope.attention_factor > 0) json["attention_factor"] = rope.attention_factor;
  }
  if (rope.kind == RopeKind::yarn) {
    json["beta_fast"] = rope.beta_fast;
    json["beta_slow"] = rope.beta_slow;
    json["truncate"] = rope.truncate;
    // The published form of an attention factor of 1: two scales whose ratio it is.
    const bool as_ratio = rope.attention_factor == 1 && rope.mscale_all_dim > 0;
    if (as_ratio) json["mscale"] = rope.mscale_all_dim;
    if (rope.attention_factor > 0 && !as_ratio) json["attention_factor"] = rope.attention_factor;
  }
  if (rope.mscale_all_dim > 0) json["mscale_all_dim"] = rope.mscale_all_dim;
  return json;
}

/// The rotation of sliding layers: their own, or that of all layers.
const RopeConfig& local_rotation(const ModelConfig& model) { return model.rope_local.theta > 0 ? model.rope_local : model.rope; }

/// Whether only rope_parameters can express the rotations. With rope_scaling, transformers 4 gives OLMo's sliding layers the base
/// of the full ones, but 5 gives them its class's default; and 5 does not read truncate there.
bool needs_rope_parameters(const RopeDefaults& family, const ModelConfig& model) {
  if (family.parameters_only) return true;
  if (!family.two_ropes) return false;
  const RopeConfig& local = local_rotation(model);
  const bool other_base = family.local_theta == 0 && (model.rope.theta != family.theta || local.theta != family.theta);
  return other_base || local.kind != RopeKind::none || (model.rope.kind == RopeKind::yarn && !model.rope.truncate);
}

}  // namespace

void read_rope(JsonReader& reader, const RopeDefaults& family, ModelConfig& model, std::vector<std::string>& warnings) {
  if (family.parameters_only) {
    read_rope_parameters(reader, family, model, warnings);
  } else if (family.two_ropes) {
    read_two_ropes(reader, family, model, warnings);
  } else {
    read_one_rope(reader, family, model, warnings);
  }
}

void write_rope(OrderedJson& json, const RopeDefaults& family, const ModelConfig& model) {
  if (!family.parameters_only) json["rope_theta"] = model.rope.theta;
  if (family.proportion > 0) json["partial_rotary_factor"] = model.rope.proportion;
  const RopeConfig& local = local_rotation(model);
  if (family.local_theta > 0 && !family.parameters_only) json["rope_local_base_freq"] = local.theta;
  if (!needs_rope_parameters(family, model)) {
    // null would mean the class's scaled rotation, if it has one.
    const bool plain = model.rope.kind == RopeKind::none && family.scaled.kind == RopeKind::none;
    json["rope_scaling"] = plain ? OrderedJson(nullptr) : rotation_json(model.rope);
    return;
  }
  OrderedJson& parameters = json["rope_parameters"];
  // truncate is beside the two dictionaries and applies to both.
  if (model.rope.kind == RopeKind::yarn) parameters["truncate"] = model.rope.truncate;
  if (local.kind == RopeKind::yarn) parameters["truncate"] = local.truncate;
  parameters["full_attention"] = rotation_json(model.rope);
  parameters["full_attention"]["rope_theta"] = model.rope.theta;
  parameters["sliding_attention"] = rotation_json(local);
  parameters["sliding_attention"]["rope_theta"] = local.theta;
}

}  // namespace millrace::layers
