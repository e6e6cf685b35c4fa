#pragma once

#include <caf/actor_system.hpp>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <utility>

#include "actors/driver_actor.hpp"
#include "actors/jobs/parity.hpp"
#include "actors/pipeline.hpp"
#include "actors/rank/capture_hook.hpp"

namespace millrace::actors {

/// A pipeline with the weights of a model folder whose ranks capture hidden states, loss sums and logits (CaptureHook). The base of
/// the jobs that compare a model with recordings. Thread: the main thread.
class CapturedPipeline {
 public:
  /// Collective. `plan` must outlive this object. `needs` gives the ranks' resources except threads and devices, which are those of
  /// `settings`. Routers choose the experts of `imposed`, which must outlive this object, if it is given.
  CapturedPipeline(Session& session, const ParitySettings& settings, const PipelinePlan& plan, RankResources needs,
                   const RouterChoices* imposed = nullptr);

  /// Collective: checks that all processes have the same plan, then runs `Driver` (a DriverActor with this Output) until it
  /// finishes. Returns its output in process 0, an empty one in other processes. `arguments` are passed to the driver's constructor
  /// after its Setup.
  template <class Driver, class Output, class... Arguments>
  [[nodiscard]] Output run(const BatchProvider& batches, std::int64_t steps, const Arguments&... arguments) {
    std::promise<Output> output;
    Pipeline::Start start;
    start.batches = &batches;
    start.steps = steps;
    start.captured = [this](Rank& rank) { return hooks_.at(&rank)->take(); };
    start.coordinator = [&](std::function<void(const ToRank&)> to_ranks, const caf::actor&) {
      return pipeline_.system().spawn<Driver>(typename Driver::Setup{plan_.ranks(), std::move(to_ranks), &output}, arguments...);
    };
    agree_on_plan();
    return drive(session_, pipeline_, start, output);
  }

  /// The choices of the routers of this process's ranks since the beginning.
  [[nodiscard]] RouterChoices take_choices();

 private:
  void agree_on_plan();

  Session& session_;
  const PipelinePlan& plan_;
  Pipeline pipeline_;
  std::map<const Rank*, std::unique_ptr<CaptureHook>> hooks_;
};

}  // namespace millrace::actors
