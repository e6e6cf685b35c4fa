#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "actors/jobs/recorded_steps.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/io/json_reader.hpp"

namespace millrace::actors {
namespace {

using runtime::Json;
using runtime::JsonReader;

/// A key whose value would change what a step computes, and the only value that is supported.
void check_only_value(JsonReader& reader, const char* key, const Json& expected, const char* why) {
  const Json* value = reader.find(key);
  if (value != nullptr && *value != expected) reader.refuse(key, fmt::format("expected {}: {}", expected.dump(), why));
}

double number_or(JsonReader& reader, const char* key, double missing) { return reader.number(key, -1e30, 1e30).value_or(missing); }

/// int(steps · fraction), as Python rounds.
std::int64_t steps_part(std::int64_t steps, double fraction) { return static_cast<std::int64_t>(static_cast<double>(steps) * fraction); }

std::vector<std::string> expressions(JsonReader& reader, const char* key, const Json& list) {
  std::vector<std::string> all;
  if (!list.is_array()) reader.refuse(key, "expected a list of regular expressions");
  for (const Json& expression : list) {
    if (!expression.is_string()) reader.refuse(key, "expected a list of regular expressions");
    all.push_back(expression.get<std::string>());
  }
  return all;
}

/// The values of MaxText's opt_type that are supported. Each is the name of the same optimizer in train.optimizer.
constexpr std::array<std::string_view, 4> maxtext_optimizers = {"adamw", "adam_pax", "sgd", "muon"};

void read_optimizer(JsonReader& reader, runtime::TrainConfig& train) {
  train.optimizer = reader.text("opt_type").value_or("adamw");
  if (std::ranges::find(maxtext_optimizers, train.optimizer) == maxtext_optimizers.end())
    reader.refuse("opt_type", "expected adamw, adam_pax, sgd or muon: no other optimizer of MaxText is supported");
  check_only_value(reader, "adam_eps_root", 0.0, "epsilon is added outside of the root");
  if (const auto dtype = reader.text("mu_dtype").value_or("float32"); dtype == "bfloat16")
    train.first_moment = "bf16";
  else if (dtype != "float32" && !dtype.empty())
    reader.refuse("mu_dtype", "expected float32 or bfloat16");
  check_only_value(reader, "weight_dtype", "float32", "parameters are fp32");
  check_only_value(reader, "grad_dtype", "float32", "gradients are fp32");
  if (const Json* mask = reader.find("trainable_parameters_mask"); mask != nullptr)
    train.trainable = expressions(reader, "trainable_parameters_mask", *mask);
  if (train.optimizer == "sgd") {  // MaxText's sgd has neither
    train.momentum = 0;
    train.weight_decay = 0;
    return;
  }
  train.beta1 = number_or(reader, "adam_b1", 0.9);
  train.beta2 = number_or(reader, "adam_b2", 0.95);
  train.epsilon = number_or(reader, "adam_eps", 1e-8);
  train.weight_decay = number_or(reader, "adam_weight_decay", 0.1);
  if (train.optimizer == "muon") {
    train.muon_beta = number_or(reader, "muon_beta", 0.95);
    train.muon_weight_decay = number_or(reader, "muon_weight_decay", 0.0);
    const Json* rms = reader.find("muon_consistent_rms");
    if (rms != nullptr && !rms->is_null()) train.muon_consistent_rms = number_or(reader, "muon_consistent_rms", 0.0);
    return;  // its AdamW has no mask
  }
  if (const Json* mask = reader.find("adamw_mask"); mask != nullptr) {
    train.decay_mask = expressions(reader, "adamw_mask", *mask);
  }
}

void read_learning_rate(JsonReader& reader, runtime::TrainConfig& train) {
  constexpr std::int64_t many = 1'000'000'000;
  const auto steps = reader.integer("learning_rate_schedule_steps", -1, many).value_or(-1);
  train.steps = steps > 0 ? steps : reader.integer("steps", 1, many).value_or(1);
  train.learning_rate = number_or(reader, "learning_rate", 3e-5);
  train.final_learning_rate = train.learning_rate * number_or(reader, "learning_rate_final_fraction", 0.1);
  train.warmup_steps = steps_part(train.steps, number_or(reader, "warmup_steps_fraction", 0.1));
  train.decay = reader.text("lr_schedule_type").value_or("cosine");
  if (train.decay != "cosine" && train.decay != "wsd") reader.refuse("lr_schedule_type", "expected cosine or wsd");
  if (train.decay == "cosine") return;
  train.decay_steps = steps_part(train.steps, number_or(reader, "wsd_decay_steps_fraction", 0.1));
  const auto style = reader.text("wsd_decay_style").value_or("linear");
  if (style != "linear" && style != "cosine") reader.refuse("wsd_decay_style", "expected linear or cosine");
  if (style == "cosine") train.decay = "wsd-cosine";
}

}  // namespace

runtime::TrainConfig recorded_training(const std::string& folder) {
  const auto path = runtime::join_path(folder, "config.json");
  const Json json = runtime::parse_json(runtime::read_text_file(path, 4 << 20, ExitCode::model), 16, ExitCode::model, path);
  JsonReader reader(json, path, ExitCode::model);
  if (reader.find("decoder_block") == nullptr) reader.refuse("decoder_block", "expected MaxText's keys, which recorded steps need");
  runtime::TrainConfig train;
  train.numerics = "maxtext";
  train.accumulation_steps = reader.integer("gradient_accumulation_steps", 1, 1 << 20).value_or(1);
  check_only_value(reader, "use_tunix_gradient_accumulation", false, "a step's gradient is divided by its valid targets");
  read_optimizer(reader, train);
  read_learning_rate(reader, train);
  train.skip_spikes = reader.boolean("skip_step_on_spikes").value_or(false);
  train.skip_window = reader.integer("skip_step_interval", 1, 1 << 20).value_or(128);
  train.skip_factor = number_or(reader, "skip_step_scaling_factor", 6.0);
  if (reader.boolean("use_qk_clip").value_or(false)) train.qk_clip = number_or(reader, "qk_clip_threshold", 100.0);
  train.clip = std::fmax(0.0, number_or(reader, "gradient_clipping_threshold", 1.0));
  return train;
}

}  // namespace millrace::actors
