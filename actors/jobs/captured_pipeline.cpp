#include "actors/jobs/captured_pipeline.hpp"

#include "actors/rank/device_placement.hpp"
#include "actors/rank/initial_state.hpp"
#include "actors/setup/token_compression.hpp"
#include "runtime/io/hash.hpp"

namespace millrace::actors {
namespace {

RankResources placed_resources(Session& session, const ParitySettings& settings, const PipelinePlan& plan, RankResources needs) {
  needs.threads = settings.threads;
  needs.threads_by_option = true;
  needs.compression = open_compression(plan.model, settings.folder);
  place_on_devices(needs, session, kernels::device_kind(settings.device), {}, "");
  return needs;
}

}  // namespace

CapturedPipeline::CapturedPipeline(Session& session, const ParitySettings& settings, const PipelinePlan& plan, RankResources needs,
                                   const RouterChoices* imposed)
    : session_(session), plan_(plan), pipeline_(session, plan, placed_resources(session, settings, plan, std::move(needs))) {
  for (auto* rank : pipeline_.ranks()) {
    initialize_from_folder(*rank, settings.folder);
    auto& hook = hooks_[rank];
    hook = std::make_unique<CaptureHook>(*rank, imposed);
    rank->set_hook(hook.get());
  }
}

RouterChoices CapturedPipeline::take_choices() {
  RouterChoices all;
  for (const auto& [rank, hook] : hooks_) all.merge(hook->take_choices());
  return all;
}

void CapturedPipeline::agree_on_plan() { session_.control().agree({{"plan", runtime::hash_of(plan_.text()).hex()}}); }

}  // namespace millrace::actors
