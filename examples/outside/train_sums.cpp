// One idea: a program outside of the tree trains with a loss, data and a callback of its own. It links an installed millrace
// (CMakeLists.txt), and everything else is as in `millrace train`: pipeline, MPI, checkpoints, resuming, status page.
//
//   the loss       FocalLoss, an operation with its gradient; train.loss = "focal" selects it
//   the data       Sums, a DataSource: rows of sums such as "7+8=15", of which only the results are targets
//   the callback   Progress, a RunListener: called after every step
//
// Exit code 0 if the loss fell to a third.

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "actors/jobs/training.hpp"
#include "actors/rank/batch_provider.hpp"
#include "actors/run_listener.hpp"
#include "actors/setup/run_signals.hpp"
#include "configs/load.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/operands.hpp"
#include "kernels/base/thread_team.hpp"
#include "layers/losses/output_loss.hpp"
#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"
#include "tools/commands/run_settings.hpp"

using namespace millrace;

namespace {

// -- the loss
// -------------------------------------------------------------------------------------------------------------------------------

constexpr float gamma = 2.0F;  // how much less a target counts that is predicted well

/// The focal loss (Lin et al., arXiv 1708.02002, equation 4): Σ −(1 − p)^γ log p over the targets that are not masked, p the softmax of a
/// token's logits at its target. logits f32 [T, V], targets i32 [T] → loss f64 [1].
constinit kernels::Kernel<void(const kernels::ExecutionContext&, const kernels::Tensor& logits, const kernels::Tensor& targets,
                               const kernels::Tensor& loss)>
    focal_loss("focal_loss");
/// logits, targets, scale f32 [1] → d_logits f32 [T, V]; `scale` is what the loss is multiplied with, 1 / the valid targets of the step.
constinit kernels::Kernel<void(const kernels::ExecutionContext&, const kernels::Tensor& logits, const kernels::Tensor& targets,
                               const kernels::Tensor& scale, const kernels::Tensor& d_logits)>
    focal_loss_gradient("focal_loss_gradient");

/// The largest logit of a token, and the logarithm of Σ exp(logit − largest).
struct Softmax {
  float largest = 0, log_sum = 0;
  Softmax(const float* logits, std::int64_t vocabulary) : largest(*std::max_element(logits, logits + vocabulary)) {
    float sum = 0;
    for (std::int64_t v = 0; v < vocabulary; ++v) sum += std::exp(logits[v] - largest);
    log_sum = std::log(sum);
  }
  [[nodiscard]] float log_probability(float logit) const { return logit - largest - log_sum; }
};

/// In the order of tokens, whatever the number of threads: the sum has the same bits in every layout.
void focal_loss_on_cpu(const kernels::ExecutionContext&, const kernels::Tensor& logits, const kernels::Tensor& targets,
                       const kernels::Tensor& loss) {
  const std::int64_t vocabulary = logits.shape[1];
  double sum = 0;
  for (std::int64_t t = 0; t < logits.shape[0]; ++t) {
    const std::int32_t target = targets.as<std::int32_t>()[t];
    if (target < 0) continue;
    const float* row = logits.as<float>() + t * vocabulary;
    const float log_p = Softmax(row, vocabulary).log_probability(row[target]);
    sum -= static_cast<double>(std::pow(1.0F - std::exp(log_p), gamma) * log_p);
  }
  *loss.as<double>() = sum;
}

/// With q the softmax and p = q[target]: dL/dlogit_v = (γ p (1 − p)^(γ−1) log p − (1 − p)^γ) · ([v = target] − q_v).
void focal_loss_gradient_on_cpu(const kernels::ExecutionContext& context, const kernels::Tensor& logits, const kernels::Tensor& targets,
                                const kernels::Tensor& scale, const kernels::Tensor& d_logits) {
  const std::int64_t vocabulary = logits.shape[1];
  context.team().for_ranges(logits.shape[0], 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int32_t target = targets.as<std::int32_t>()[t];
      const float* row = logits.as<float>() + t * vocabulary;
      float* d_row = d_logits.as<float>() + t * vocabulary;
      const Softmax softmax(row, vocabulary);
      const float log_p = target < 0 ? 0.0F : softmax.log_probability(row[target]), p = std::exp(log_p);
      const float slope = target < 0 ? 0.0F : gamma * p * std::pow(1.0F - p, gamma - 1.0F) * log_p - std::pow(1.0F - p, gamma);
      for (std::int64_t v = 0; v < vocabulary; ++v)
        d_row[v] = *scale.as<float>() * slope * ((v == target ? 1.0F : 0.0F) - std::exp(softmax.log_probability(row[v])));
    }
  });
}

const kernels::InTable in_table[] = {
    {kernels::Backend::cpu, focal_loss, focal_loss_on_cpu},
    {kernels::Backend::cpu, focal_loss_gradient, focal_loss_gradient_on_cpu},
};

/// logits, targets, scale → d_logits.
class FocalLossGradient final : public runtime::OperationRule {
 public:
  std::string_view name() const override { return "focal_loss_gradient"; }
  std::vector<runtime::ValueType> infer(std::span<const runtime::ValueType> inputs, const runtime::Attributes&) const override {
    return {inputs[0]};
  }
  runtime::Cost cost(std::span<const runtime::ValueType> inputs, std::span<const runtime::ValueType> outputs,
                     const runtime::Attributes&) const override {
    return {8 * runtime::rules::elements(inputs[0]), runtime::rules::traffic(inputs, outputs)};
  }
  runtime::KernelRows kernel_rows() const override { return {&focal_loss_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const runtime::Attributes&, kernels::Scratch) const override {
    focal_loss_gradient(context, inputs[0], inputs[1], inputs[2], outputs[0]);
  }
};

class FocalLoss final : public runtime::OperationRule {
 public:
  std::string_view name() const override { return "focal_loss"; }
  std::vector<runtime::ValueType> infer(std::span<const runtime::ValueType> inputs, const runtime::Attributes&) const override {
    runtime::rules::require(inputs.size() == 2 && runtime::rules::is_matrix(inputs[0]) && inputs[0].dtype == kernels::DType::f32, name(),
                            inputs, "logits f32 [T, V], targets i32 [T]");
    return {{kernels::DType::f64, {1}}};
  }
  void input_gradient(runtime::GradientBuilder& builder) const override {
    static const FocalLossGradient rule;
    if (builder.wants(0))
      builder.add_gradient(0, builder.append(rule, {builder.input(0), builder.input(1), builder.loss_scale()}, {}, "dx")[0]);
  }
  runtime::Cost cost(std::span<const runtime::ValueType> inputs, std::span<const runtime::ValueType> outputs,
                     const runtime::Attributes&) const override {
    return {3 * runtime::rules::elements(inputs[0]), runtime::rules::traffic(inputs, outputs)};
  }
  runtime::KernelRows kernel_rows() const override { return {&focal_loss}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const runtime::Attributes&, kernels::Scratch) const override {
    focal_loss(context, inputs[0], inputs[1], outputs[0]);
  }
};

runtime::ValueId append_focal_loss(runtime::ProgramBuilder& builder, const layers::HeadOperands& head, runtime::ValueId targets) {
  static const FocalLoss rule;
  return builder.append(rule, {layers::trained_logits(builder, head), targets}, {}, "focal_loss")[0];
}

// -- the data
// -------------------------------------------------------------------------------------------------------------------------------

/// Sums of two digits, one after the other: "7+8=153+4=07…". A row depends on (seed, step, microbatch, row)
/// alone, so that every rank of every layout reads the same.
class Sums final : public actors::DataSource {
 public:
  explicit Sums(const runtime::TrainConfig& train) : train_(train) {}

  [[nodiscard]] std::string fingerprint() const override { return "sums of digits, version 1"; }
  [[nodiscard]] std::string describe() const override { return "sums of two digits"; }

  void fill(std::int64_t step, std::int64_t microbatch, const runtime::BatchView& batch) const override {
    runtime::pad(batch);
    const auto sequence = static_cast<std::size_t>(train_.sequence);
    for (std::size_t row = 0; row < static_cast<std::size_t>(train_.batch); ++row) {
      const std::string text = text_of(step, microbatch, row);
      for (std::size_t i = 0; i < sequence; ++i) {
        const std::size_t t = row * sequence + i;
        batch.tokens[t] = text[i];
        batch.positions[t] = static_cast<std::int32_t>(i % length);
        batch.segments[t] = static_cast<std::int32_t>(1 + i / length);  // each sum is a document: it does not see the ones before it
        batch.samples[t] = 1;
        if (is_target(i)) batch.targets[t] = text[i + 1];
      }
    }
  }

  [[nodiscard]] std::int64_t valid_targets(std::int64_t) const override {
    std::int64_t of_row = 0;
    for (std::int64_t i = 0; i < train_.sequence; ++i) of_row += is_target(static_cast<std::size_t>(i)) ? 1 : 0;
    return train_.microbatches * train_.batch * of_row;
  }

 private:
  static constexpr std::size_t length = 6;  // of a sum

  /// The two digits after the equals sign are predicted.
  static bool is_target(std::size_t i) { return i % length == 3 || i % length == 4; }

  [[nodiscard]] std::string text_of(std::int64_t step, std::int64_t microbatch, std::size_t row) const {
    const auto sequence = static_cast<std::size_t>(train_.sequence);
    const auto row_number = static_cast<std::uint64_t>((step * train_.microbatches + microbatch) * train_.batch) + row;
    std::string text;
    for (std::uint64_t sum = row_number * (sequence + 1); text.size() <= sequence; ++sum) {
      // SplitMix64 of the sum's number.
      std::uint64_t x = static_cast<std::uint64_t>(train_.seed) + 0x9e3779b97f4a7c15U * (sum + 1);
      x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
      x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
      x ^= x >> 31;
      const auto a = x % 10, b = x / 10 % 10;
      text += fmt::format("{}+{}={:02}", a, b, a + b);
    }
    return text;
  }

  runtime::TrainConfig train_;
};

// -- the callback
// ---------------------------------------------------------------------------------------------------------------------------

/// Prints every tenth step. Called in process 0 only, on the coordinator's thread.
class Progress final : public actors::RunListener {
 public:
  void step(const actors::StepRecord& record) override {
    if (!first_) first_ = record.loss;
    last_ = record.loss;
    if (record.step % 10 != 0) return;
    fmt::print("callback: step {} of {}, focal loss {:.4f}\n", record.step, record.steps, record.loss);
    std::fflush(stdout);
  }
  void evaluation(const actors::EvaluationRecord&, bool) override {}

  /// Whether the loss fell to a third; also where there was no step, in other processes and in a run that was finished already.
  [[nodiscard]] bool fell() const { return !first_ || last_ < *first_ / 3; }

 private:
  std::optional<double> first_;
  double last_ = 0;
};

int train(const std::vector<std::string>& words) {
  layers::add_output_loss("focal", append_focal_loss);
  Progress progress;
  actors::note_signals();
  actors::Session session;
  configs::LoadedRun run;
  session.prepare_together([&] {
    configs::LoadRequest request;
    for (const auto& word : words) (word.find('=') == std::string::npos ? request.files : request.overrides).push_back(word);
    request.environment = configs::environment_of_process();
    request.complete = false;  // the data are not in the description
    run = configs::load(request);
  });
  session.connect(static_cast<int>(run.config.ranks()), run.config.cluster);
  session.carry_out([&] {
    auto settings = tools::settings_of(run, "train_sums 1");
    settings.data_source = std::make_shared<Sums>(run.config.train);
    settings.listeners = {&progress};
    actors::train(session, settings);
  });
  return progress.fell() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return train({argv + 1, argv + argc});
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.code());
  }
}
