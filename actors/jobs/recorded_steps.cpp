#include "actors/jobs/recorded_steps.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "actors/jobs/captured_pipeline.hpp"
#include "actors/jobs/golden_rows.hpp"
#include "actors/jobs/recorded_steps_report.hpp"
#include "actors/jobs/tensor_gather.hpp"
#include "layers/formats/stored_elements.hpp"
#include "runtime/engine/optimizer_step.hpp"
#include "runtime/engine/update_rule.hpp"
#include "runtime/optimizers/learning_rate.hpp"

namespace millrace::actors {
namespace {

/// What the driver of the steps needs to know.
struct StepsSetup {
  const PipelinePlan* plan = nullptr;  // outlives the driver, as the batches do
  const GivenSteps* batches = nullptr;
  runtime::TrainConfig train;
  std::int64_t steps = 0;
  std::vector<std::int64_t> parameters_after;  // numbers of steps after which parameters are kept
};

/// Drives each step through gradients, update and the collection of all parameters.
class RecordedStepsActor : public DriverActor<RecordedStepsActor, TrainedSteps> {
 public:
  RecordedStepsActor(caf::actor_config& config, Setup setup, StepsSetup steps)
      : DriverActor(config, std::move(setup)),
        setup_(std::move(steps)),
        rule_(setup_.train, [rate = runtime::learning_rate(setup_.train)](std::int64_t step) { return rate.at(step); }) {}

  using DriverActor::handle;
  void handle(const RankReady&) {
    if (all()) broadcast(RunStep{0});
  }
  void handle(const StepReport& report) {
    reports_[report.rank] = report;
    if (all()) update();
  }
  void handle(const Optimized&) {
    if (all()) broadcast(Collect{.parameters = true});
  }
  void handle(const Collected& collected) {
    if (!collected.last) return gather_.add(collected);
    if (all()) end_step();
  }

 private:
  void update() {
    const auto step = static_cast<std::int64_t>(output_.steps.size());
    TrainedStep& result = output_.steps.emplace_back();
    result.targets = setup_.batches->valid_targets(step);
    std::vector<runtime::LossTermSums> terms;
    for (const auto& [rank, report] : reports_) terms.insert(terms.end(), report.losses.begin(), report.losses.end());
    const auto& plan = *setup_.plan;
    result.loss =
        runtime::add_loss_terms(std::move(terms), plan.schedule.placement.model_stages(),
                                {result.targets, plan.schedule.microbatches, plan.accumulation_steps, setup_.batches->mtp_targets(step)});
    std::vector<runtime::TensorSquareSum> squares;
    for (const auto& [rank, report] : reports_) squares.insert(squares.end(), report.squares.begin(), report.squares.end());
    result.raw_grad_norm = runtime::global_norm(squares);
    const runtime::StepUpdate update = rule_.next(step, result.loss.total, result.raw_grad_norm);
    result.grad_norm = update.clipped_norm;
    result.learning_rate = update.step_rate;
    result.skipped = update.skipped;
    std::vector<runtime::ObservedSums> observed;
    for (const auto& [rank, report] : reports_) observed.insert(observed.end(), report.observed.begin(), report.observed.end());
    const auto biases = runtime::bias_update(setup_.train.routed_bias_update_rate, observed, plan.schedule.placement.model_stages(),
                                             plan.accumulation_steps);
    const auto observations = runtime::add_observations(std::move(observed), plan.schedule.placement.model_stages());
    result.max_logits = runtime::largest_score(observations).value_or(0);
    broadcast(Optimize{step, update.update, static_cast<double>(update.gradient_scale), update.learning_rate, biases, update.skipped,
                       runtime::qk_clip(setup_.train.qk_clip, observations)});
  }

  void end_step() {
    TrainedStep& result = output_.steps.back();
    std::map<std::string, std::vector<float>> found;
    std::map<std::int64_t, double> z_sums;  // by microbatch
    for (auto& tensor : gather_.take()) {
      if (tensor.name.starts_with("loss_sums.lm_loss."))
        z_sums[std::stoll(tensor.name.substr(tensor.name.rfind('/') + 1))] = static_cast<double>(tensor.values.at(1));
      found[tensor.name] = std::move(tensor.values);
    }
    result.z_loss = z_loss(z_sums);
    double squares = 0;  // added tensor by tensor in model order, like every norm
    for (const auto& spec : setup_.plan->parameters) {
      double own = 0;
      for (const double value : found.at(spec.name)) own += value * value;
      squares += own;
    }
    result.param_norm = std::sqrt(squares);
    const auto steps_done = static_cast<std::int64_t>(output_.steps.size());
    if (std::ranges::find(setup_.parameters_after, steps_done) != setup_.parameters_after.end())
      for (const auto& spec : setup_.plan->parameters)
        for (auto& [name, values] : layers::as_stored(spec, found.at(spec.name))) output_.parameters[steps_done][name] = std::move(values);
    if (steps_done == setup_.steps) return finish(std::move(output_));
    broadcast(RunStep{steps_done});
  }

  /// The mean over the valid targets of each accumulation step; MaxText adds these means.
  [[nodiscard]] double z_loss(const std::map<std::int64_t, double>& sums) const {
    const auto step = static_cast<std::int64_t>(output_.steps.size()) - 1;
    const auto accumulation_steps = setup_.plan->accumulation_steps;
    const std::int64_t of_a_step = setup_.plan->schedule.microbatches / accumulation_steps;
    std::vector<double> z(static_cast<std::size_t>(accumulation_steps)), targets(z.size());
    for (const auto& [microbatch, sum] : sums) {
      const auto part = static_cast<std::size_t>(microbatch / of_a_step);
      z.at(part) += sum;
      targets[part] += static_cast<double>(setup_.batches->valid_targets_of(step, microbatch));
    }
    double total = 0;
    for (std::size_t part = 0; part < z.size(); ++part) total += z[part] / std::max(targets[part], 1.0);
    return total;
  }

  const StepsSetup setup_;
  runtime::UpdateRule rule_;
  std::map<int, StepReport> reports_;  // by rank
  TensorGather gather_;
  TrainedSteps output_;
};

/// The rows step by step of G accumulation steps: MaxText's step m has the rows m, m + G, m + 2G, …
std::vector<GivenRow> in_accumulation_order(std::vector<GivenRow> rows, std::int64_t steps, const std::string& folder) {
  const auto count = static_cast<std::size_t>(steps);
  MILLRACE_CHECK(rows.size() % count == 0, ExitCode::model, "actors.parity",
                 "{}: gradient_accumulation_steps = {} does not divide the {} rows of a step", folder, steps, rows.size());
  std::vector<GivenRow> ordered;
  for (std::size_t step = 0; step < count; ++step)
    for (std::size_t row = step; row < rows.size(); row += count) ordered.push_back(std::move(rows[row]));
  return ordered;
}

}  // namespace

bool has_recorded_steps(const runtime::SafetensorsFile& golden) {
  return std::ranges::any_of(golden.tensors(), [](const auto& tensor) { return tensor.name.starts_with("step."); });
}

bool run_recorded_steps(Session& session, const ParitySettings& settings, const layers::ConfigFile& config,
                        const runtime::SafetensorsFile& golden) {
  constexpr const char* component = "actors.parity";
  MILLRACE_CHECK(settings.dtype == "fp32", ExitCode::config, component, "--dtype {}, expected fp32: the steps of {} were recorded in it",
                 settings.dtype, settings.folder);
  auto recorded = read_golden_rows(golden, config.model.vocab_size);
  const auto steps = static_cast<std::int64_t>(recorded.size());
  StepsSetup driver{nullptr, nullptr, recorded_training(settings.folder), steps, recorded_parameter_steps(golden)};
  driver.train.routed_bias_update_rate = config.losses.routed_bias_update_rate;
  runtime::learning_rate(driver.train).validate();
  for (const auto after : driver.parameters_after)
    MILLRACE_CHECK(after >= 1 && after <= steps, ExitCode::model, component, "{}: parameters after {} steps, expected 1 to {}",
                   golden.path(), after, steps);
  for (auto& rows : recorded) rows = in_accumulation_order(std::move(rows), driver.train.accumulation_steps, settings.folder);
  const std::size_t rows = parity_rows(config.model, recorded.front().size() / static_cast<std::size_t>(driver.train.accumulation_steps));
  const auto plan = make_plan(parity_request(settings, config, driver.train, recorded.front(), rows));
  const GivenSteps batches(std::move(recorded), rows, mtp_modules(plan.model));
  driver.plan = &plan;
  driver.batches = &batches;

  CapturedPipeline pipeline(session, settings, plan, {});
  const auto trained = pipeline.run<RecordedStepsActor, TrainedSteps>(batches, steps, driver);
  return !session.leads() || report_recorded_steps(settings, plan, golden, trained);
}

}  // namespace millrace::actors
