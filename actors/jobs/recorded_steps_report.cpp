#include "actors/jobs/recorded_steps_report.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "layers/formats/scanned_layers.hpp"
#include "layers/formats/stored_elements.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/io/hash.hpp"
#include "runtime/io/json_reader.hpp"

namespace millrace::actors {
namespace {

constexpr const char* steps_component = "actors.parity";

/// The deviations that another correct fp32 implementation may have, from the README of the recordings.
struct StepsTolerance {
  double loss = 5e-6, grad_norm = 2e-5;  // relative
  double parameter = 2e-3,
         parameter_rms = 1e-4;  // times the sum of the learning rates so far, for the largest difference and the root mean square
  static constexpr double learning_rate = 1e-6;     // relative: MaxText evaluates its rule in fp32
  static constexpr double parameter_norm = 1.2e-7;  // relative: the recorded norm is rounded to fp32

  static StepsTolerance read(const std::string& folder, double scale) {
    StepsTolerance tolerance;
    const auto path = runtime::join_path(folder, "tolerance.json");
    if (runtime::kind_of(path) != runtime::PathKind::missing) {
      const auto json = runtime::parse_json(runtime::read_text_file(path, 1 << 16, ExitCode::model), 8, ExitCode::model, path);
      const runtime::JsonReader file(json, path, ExitCode::model);
      const auto read = [&](const char* key, double& value) { value = file.number(key, 0, 1e30).value_or(value); };
      read("loss", tolerance.loss);
      read("grad_norm", tolerance.grad_norm);
      read("parameter", tolerance.parameter);
      read("parameter_rms", tolerance.parameter_rms);
    }
    for (double* each : {&tolerance.loss, &tolerance.grad_norm, &tolerance.parameter, &tolerance.parameter_rms}) *each *= scale;
    return tolerance;
  }
};

/// One line of the report: the largest deviation, relative to its limit, of everything that the line covers.
class StepsLine {
 public:
  void add(double difference, double allowed, const std::string& where) {
    ++count_;
    largest_ = std::max(largest_, difference);
    const double part = difference == 0 ? 0.0 : difference / allowed;  // infinity if the limit is 0
    if (std::isfinite(difference) && part <= part_ && !where_.empty()) return;
    part_ = std::isfinite(difference) ? part : std::numeric_limits<double>::infinity();
    where_ = where;
  }
  void miss(const std::string& what) {
    part_ = std::numeric_limits<double>::infinity();
    where_ = what;
  }
  [[nodiscard]] bool print(const std::string& title, const char* unit) const {
    const bool within = part_ <= 1;
    fmt::print("{:<28} {:>3} {} | largest difference {:.3e} | {:6.1f}% of what is allowed ({}) | {}\n", title, count_, unit, largest_,
               100 * part_, where_, within ? "ok" : "BEYOND");
    return within;
  }

 private:
  int count_ = 0;
  double largest_ = 0, part_ = 0;
  std::string where_;
};

std::vector<float> read_values(const runtime::SafetensorsFile& golden, const std::string& name) {
  std::vector<float> values(golden.at(name).elements());
  golden.read(name, std::span<float>(values));
  return values;
}

/// "after3.decoder.decoder_norm.scale" → 3 and the rest; −1 for another name.
std::pair<std::int64_t, std::string> parse_after(const std::string& name) {
  std::int64_t steps = -1;
  if (!name.starts_with("after")) return {-1, ""};
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + 5, end, steps);
  if (error != std::errc() || rest == end || *rest != '.') return {-1, ""};
  return {steps, std::string(rest + 1, end)};
}

/// The value of a scalar in a step, and the largest allowed difference from the recorded value; -1: we do not compute this scalar.
struct StepScalar {
  double value = 0, allowed = -1;
};
StepScalar scalar_of(const std::string& name, const TrainedStep& step, double expected, const StepsTolerance& tolerance, double rates,
                     double elements) {
  const double size = std::fabs(expected);
  if (name == "loss") return {step.loss.total, tolerance.loss * size};
  if (const auto* term = step.loss.find(name)) return {term->value, tolerance.loss * size};
  if (name == "z_loss") return {step.z_loss, tolerance.loss * size};
  if (name == "perplexity") return {std::exp(step.loss.main), tolerance.loss * std::max(1.0, step.loss.main) * size};
  if (name == "grad_norm") return {step.grad_norm, tolerance.grad_norm * size};
  if (name == "raw_grad_norm") return {step.raw_grad_norm, tolerance.grad_norm * size};
  // The norm ‖p‖ changes by at most the norm of the change of p.
  if (name == "param_norm")
    return {step.param_norm, tolerance.parameter_rms * rates * std::sqrt(elements) + StepsTolerance::parameter_norm * size};
  if (name == "current_learning_rate") return {step.learning_rate, StepsTolerance::learning_rate * size};
  if (name == "max_logits") return {step.max_logits, tolerance.loss * size};
  if (name == "step_skipped") return {step.skipped ? 1.0 : 0.0, 0};
  if (name == "total_weights") return {static_cast<double>(step.targets), 0};
  // Loss terms that the supported families do not have.
  if (name == "moe_lb_loss" || name == "mtp_loss" || name == "indexer_loss") return {0, 0};
  return {};
}

std::vector<double> sums_of_rates(const TrainedSteps& trained) {
  std::vector<double> sums;
  double sum = 0;
  for (const TrainedStep& step : trained.steps) sums.push_back(sum += step.learning_rate);
  return sums;
}

bool compare_scalars(const runtime::SafetensorsFile& golden, const TrainedSteps& trained, const PipelinePlan& plan,
                     const StepsTolerance& tolerance) {
  double elements = 0;
  for (const auto& spec : plan.parameters) elements += static_cast<double>(spec.shape.elements());
  const auto rates = sums_of_rates(trained);
  bool within = true;
  for (const auto& tensor : golden.tensors()) {
    if (!tensor.name.starts_with("step.")) continue;
    const auto name = tensor.name.substr(5);
    const auto expected = read_values(golden, tensor.name);
    StepsLine line;
    if (expected.size() != trained.steps.size()) line.miss("recorded for another number of steps");
    for (std::size_t s = 0; s < std::min(expected.size(), trained.steps.size()); ++s) {
      const double value = expected[s];
      const auto scalar = scalar_of(name, trained.steps[s], value, tolerance, rates[s], elements);
      if (scalar.allowed < 0)
        line.miss("not computed here");
      else
        line.add(std::fabs(scalar.value - value), scalar.allowed, fmt::format("step {}", s + 1));
    }
    within = line.print(tensor.name, "steps") && within;
  }
  return within;
}

/// Recorded parameters under the names that they have here: those of scanned layers are one tensor in the recording.
class RecordedParameters {
 public:
  RecordedParameters(const runtime::SafetensorsFile& golden, std::int64_t after,
                     const std::map<std::string, std::vector<float>>& parameters, const PipelinePlan& plan)
      : golden_(golden), prefix_(fmt::format("after{}.", after)) {
    for (const auto& [name, values] : parameters) {
      const auto scanned = layers::scanned_tensor(name);
      if (scanned && golden.find(prefix_ + name) == nullptr && golden.find(prefix_ + scanned->name) != nullptr)
        layers_[scanned->name] = std::max(layers_[scanned->name], scanned->layer + 1);
    }
    for (const auto& spec : plan.parameters)
      for (const auto& name : layers::tensors_of(spec)) shapes_.emplace(name, spec.stored.shape);
  }
  /// Whether the recording's tensor is one of ours, or that of some of our layers.
  [[nodiscard]] bool is_ours(const std::string& name, const std::map<std::string, std::vector<float>>& parameters) const {
    return parameters.contains(name) || layers_.contains(name);
  }
  /// Empty if the recording does not have it, or in another size.
  [[nodiscard]] std::vector<float> read(const std::string& name, std::size_t elements) const {
    const auto scanned = layers::scanned_tensor(name);
    const auto layers = scanned ? layers_.find(scanned->name) : layers_.end();
    const bool apart = layers == layers_.end();
    const std::string recorded = prefix_ + (apart ? name : layers->first);
    if (golden_.find(recorded) == nullptr || golden_.at(recorded).elements() != elements * (apart ? 1 : layers->second)) return {};
    auto values = read_values(golden_, recorded);
    return apart ? values : layers::scanned_layer(values, shapes_.at(name), layers->second, scanned->layer);
  }

 private:
  const runtime::SafetensorsFile& golden_;
  std::string prefix_;
  std::map<std::string, std::size_t> layers_;  // of the tensors of scanned layers
  std::map<std::string, kernels::Shape> shapes_;
};

bool compare_parameters(const runtime::SafetensorsFile& golden, const TrainedSteps& trained, const PipelinePlan& plan,
                        const StepsTolerance& tolerance) {
  const auto rates = sums_of_rates(trained);
  bool within = true;
  for (const auto& [after, parameters] : trained.parameters) {
    const double sum = rates.at(static_cast<std::size_t>(after - 1));
    const RecordedParameters recording(golden, after, parameters, plan);
    StepsLine largest, mean;
    for (const auto& tensor : golden.tensors()) {
      const auto [steps, name] = parse_after(tensor.name);
      if (steps == after && !recording.is_ours(name, parameters)) largest.miss(name + ", which the model does not have");
    }
    for (const auto& [name, values] : parameters) {
      const auto expected = recording.read(name, values.size());
      if (expected.empty()) {
        largest.miss(fmt::format("after{}.{}, missing or of another size", after, name));
        continue;
      }
      double most = 0, squares = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double difference = std::fabs(static_cast<double>(values[i]) - static_cast<double>(expected[i]));
        most = std::isnan(most) || difference <= most ? most : difference;  // a NaN stays
        squares += difference * difference;
      }
      largest.add(most, tolerance.parameter * sum, name);
      mean.add(std::sqrt(squares / static_cast<double>(std::max<std::size_t>(values.size(), 1))), tolerance.parameter_rms * sum, name);
    }
    within = largest.print(fmt::format("after{} parameters, entries", after), "tensors") && within;
    within = mean.print(fmt::format("after{} parameters, rms", after), "tensors") && within;
  }
  return within;
}

std::string hash_of_steps(const TrainedSteps& trained) {
  runtime::StateHash hash;
  const auto add = [&](const std::string& name, const char* dtype, std::size_t count, std::span<const std::byte> bytes) {
    const std::vector<std::int64_t> shape{static_cast<std::int64_t>(count)};
    hash.add(name, dtype, shape, bytes);
  };
  for (std::size_t s = 0; s < trained.steps.size(); ++s) {
    const TrainedStep& step = trained.steps[s];
    const double values[] = {step.loss.total,
                             step.z_loss,
                             step.raw_grad_norm,
                             step.grad_norm,
                             step.param_norm,
                             step.learning_rate,
                             static_cast<double>(step.targets)};
    add(fmt::format("step.{}", s + 1), "F64", std::size(values), std::as_bytes(std::span(values)));
  }
  for (const auto& [after, parameters] : trained.parameters)
    for (const auto& [name, values] : parameters)
      add(fmt::format("after{}.{}", after, name), "F32", values.size(), std::as_bytes(std::span(values)));
  return hash.digest().hex();
}

}  // namespace

std::vector<std::int64_t> recorded_parameter_steps(const runtime::SafetensorsFile& golden) {
  std::set<std::int64_t> numbers;
  for (const auto& tensor : golden.tensors())
    if (const auto [steps, name] = parse_after(tensor.name); steps >= 0) numbers.insert(steps);
  return {numbers.begin(), numbers.end()};
}

bool report_recorded_steps(const ParitySettings& settings, const PipelinePlan& plan, const runtime::SafetensorsFile& golden,
                           const TrainedSteps& trained) {
  fmt::print("parity    {} | {} | {} x {}, {} | {} | {} of {} rows\n", settings.folder, counted(trained.steps.size(), "recorded step"),
             counted(settings.ranks, "rank"), counted(settings.chunks, "chunk"), settings.schedule, plan.layout_text(),
             counted(plan.schedule.microbatches, "microbatch"), plan.rows);
  const auto tolerance = StepsTolerance::read(settings.folder, settings.tolerance);
  const bool scalars = compare_scalars(golden, trained, plan, tolerance);
  const bool parameters = compare_parameters(golden, trained, plan, tolerance);
  const double loss = trained.steps.back().loss.total;
  fmt::print("loss      {} ({:a})\nhash      {}\n{}\n", loss, loss, hash_of_steps(trained),
             scalars && parameters ? "within tolerance" : "BEYOND TOLERANCE");
  std::fflush(stdout);
  return scalars && parameters;
}

}  // namespace millrace::actors
