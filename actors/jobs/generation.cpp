#include "actors/jobs/generation.hpp"

#include <algorithm>
#include <caf/actor_system.hpp>
#include <chrono>
#include <cmath>
#include <utility>

#include "actors/driver_actor.hpp"
#include "actors/setup/token_compression.hpp"

namespace millrace::actors {
namespace {

/// Drives one ComputeLogits phase per token.
class GenerationActor : public DriverActor<GenerationActor, Generated> {
 public:
  GenerationActor(caf::actor_config& config, Setup setup, GenerationSettings settings)
      : DriverActor(config, std::move(setup)), settings_(std::move(settings)), text_(settings_.prompt) {}

  using DriverActor::handle;
  void handle(const RankReady&) {
    if (!all()) return;
    began_ = Clock::now();
    next();
  }
  void handle(const LogitsReport& report) {
    if (!report.logits.empty() && !take(report.logits)) return;
    if (!all()) return;
    if (goes_on_) return next();
    finish({written(), std::chrono::duration<double>(Clock::now() - began_).count()});
  }

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] std::int64_t written() const { return static_cast<std::int64_t>(text_.size() - settings_.prompt.size()); }

  void next() {
    ComputeLogits request;
    request.tokens = text_;
    request.position = static_cast<std::int64_t>(text_.size()) - 1;
    broadcast(request);
  }

  /// Returns false if the job was ended.
  bool take(const std::vector<float>& logits) {
    if (!std::all_of(logits.begin(), logits.end(), [](float logit) { return std::isfinite(logit); })) {
      fail_job(ExitCode::numerics, fmt::format("[actors.generation] the logits after token {} of the text are not finite", text_.size()));
      return false;
    }
    try {
      const auto token = sample_token(logits, settings_.sampling, static_cast<std::uint64_t>(text_.size()));
      text_.push_back(token);
      goes_on_ = settings_.token(token) && written() < settings_.tokens;
    } catch (const Error& error) {
      fail_job(error.code(), error.what());
      return false;
    }
    return true;
  }

  const GenerationSettings settings_;
  std::vector<std::int32_t> text_;
  bool goes_on_ = true;
  Clock::time_point began_;
};

}  // namespace

Generated generate(Session& session, const ForwardJob& job, const GenerationSettings& settings) {
  const auto plan = plan_of(job);
  MILLRACE_CHECK(!settings.prompt.empty() && settings.tokens >= 1 &&
                     plan.sequence >= static_cast<std::int64_t>(settings.prompt.size()) + settings.tokens - 1,
                 ExitCode::internal, "actors.generation", "{} prompt and {} new tokens in a row of {}, expected all but the last to fit",
                 settings.prompt.size(), settings.tokens, plan.sequence);
  RankResources needs;
  needs.threads = job.threads;
  needs.threads_by_option = true;
  needs.compression = open_compression(job.request.model, job.compression);
  needs.logits = true;
  needs.training = false;
  Pipeline pipeline(session, plan, needs);
  read_weights(pipeline, job);

  const GivenRows nothing({}, 1);
  std::promise<Generated> output;
  Pipeline::Start start;
  start.batches = &nothing;
  start.coordinator = [&](std::function<void(const ToRank&)> to_ranks, const caf::actor&) {
    return pipeline.system().spawn<GenerationActor, caf::detached>(GenerationActor::Setup{plan.ranks(), std::move(to_ranks), &output},
                                                                   settings);
  };
  const Sampling& sampling = settings.sampling;
  agree(session, plan, job,
        fmt::format("{} {} {} {} {} {}", fmt::join(settings.prompt, ","), settings.tokens, sampling.temperature, sampling.top_k,
                    sampling.top_p, sampling.seed));
  return drive(session, pipeline, start, output);
}

}  // namespace millrace::actors
