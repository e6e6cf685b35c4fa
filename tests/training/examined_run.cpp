#include "tests/training/examined_run.hpp"

#include "actors/training.hpp"
#include "configs/identity.hpp"
#include "configs/load.hpp"

namespace millrace::tests {

void run_examined(const std::string& data, const std::vector<std::string>& overrides,
                  const std::function<void(actors::Pipeline&)>& examine) {
  configs::LoadRequest request;
  request.presets = MILLRACE_SOURCE_DIR "/configs/models";
  request.overrides = {"model.preset=tiny", "data.text=" + data, "data.held_out=0",      "train.steps=3",   "train.batch=2",
                       "train.sequence=32", "train.threads=1",   "train.microbatches=4", "pipeline.ranks=4"};
  request.overrides.insert(request.overrides.end(), overrides.begin(), overrides.end());
  const auto config = configs::load(request).config;
  actors::RunSettings settings;
  settings.directory = config.directory;
  settings.model = config.model;
  settings.data = config.data;
  settings.train = config.train;
  settings.evaluate = config.evaluate;
  settings.pipeline = config.pipeline;
  settings.checkpoint = config.checkpoint;
  settings.rematerialize = config.rematerialize;
  settings.sample = config.sample;
  settings.cluster = config.cluster;
  auto shared = config;
  shared.data.text.clear();  // each process may have a copy of its own
  settings.text = configs::canonical_text(shared);
  settings.build = "test";
  settings.identity = [config](std::int64_t) { return configs::identity(config); };
  settings.check_identity = configs::check_identity;
  settings.examine = examine;
  actors::Session session;
  session.connect(static_cast<int>(config.pipeline.ranks), config.cluster);
  actors::train(session, settings);
  session.close();
}

}  // namespace millrace::tests
