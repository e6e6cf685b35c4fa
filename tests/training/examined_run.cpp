#include "tests/training/examined_run.hpp"

#include "actors/jobs/training.hpp"
#include "configs/load.hpp"
#include "tests/support/paths.hpp"
#include "tools/commands/run_settings.hpp"

namespace millrace::tests {

void run_examined(const std::string& data, const std::vector<std::string>& overrides,
                  const std::function<void(actors::Pipeline&)>& examine) {
  configs::LoadRequest request;
  request.presets = source_path("configs/models");
  request.overrides = {"model.preset=tiny", "data.text=" + data, "data.held_out=0",      "train.steps=3",   "train.batch=2",
                       "train.sequence=32", "train.threads=1",   "train.microbatches=4", "pipeline.ranks=4"};
  request.overrides.insert(request.overrides.end(), overrides.begin(), overrides.end());
  const auto run = configs::load(request);
  const auto& config = run.config;
  auto shared = run;
  shared.config.data.text.clear();  // each process may have its own copy
  auto settings = tools::settings_of(shared, "test");
  settings.data = config.data;
  settings.examine = examine;
  actors::Session session;
  session.connect(static_cast<int>(config.pipeline.ranks), config.cluster);
  actors::train(session, settings);
  session.close();
}

}  // namespace millrace::tests
