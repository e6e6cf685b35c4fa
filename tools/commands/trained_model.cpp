#include "tools/commands/trained_model.hpp"

#include <filesystem>

#include "actors/jobs/run_setup.hpp"
#include "actors/setup/parameters_text.hpp"
#include "actors/setup/token_compression.hpp"
#include "cluster/host/affinity.hpp"
#include "cluster/host/host_cores.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "layers/formats/config_file.hpp"
#include "layers/formats/llmc_file.hpp"
#include "layers/models/model.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/optimizers/stored_averages.hpp"
#include "runtime/units.hpp"
#include "tools/commands/found_checkpoint.hpp"

namespace millrace::tools {

namespace fs = std::filesystem;

namespace {

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

/// What a model's tokens are compressed by: --tokenizer, or what its run used, or the tokenizer in its folder; empty if none is known.
std::string compression_of(const TrainedModel& model, const Arguments& arguments) {
  if (arguments.given("tokenizer")) return arguments.text("tokenizer");
  if (!model.run.empty()) return actors::compression_source(configuration_of_run(model).data, "");
  return model.folder;
}

}  // namespace

std::vector<Option> with_model_options(std::vector<Option> options) {
  const std::vector<Option> model{
      {.name = "model",
       .value = "DIR",
       .help = "A folder with config.json and model.safetensors (of transformers or MaxText), a GPT-2 file of llm.c, or the same as for "
               "--checkpoint.",
       .offer = offer_files | offer_folders},
      {.name = "checkpoint",
       .value = "DIR",
       .help = "A run directory (its newest checkpoint) or a checkpoint of one.",
       .offer = offer_folders},
      {.name = "tokenizer",
       .value = "PATH",
       .help = "tokenizer.json, a .model or .tiktoken file, a folder, or byte. Default: that of the run or of the model's folder, or byte "
               "for a model that was trained on bytes.",
       .offer = offer_files | offer_folders},
      {.name = "dtype", .value = "TYPE", .help = "Compute dtype. Default: the checkpoint's, else fp32.", .choices = {"fp32", "bf16"}},
      {.name = "ranks", .value = "R", .help = "Ranks of the pipeline. Default: one per process."},
      {.name = "chunks", .value = "V", .help = "Stages per rank.", .fallback = "1"},
      {.name = "layout", .value = "LAYOUT", .help = "Layers of each stage, such as \"E t*2 | t H\"."},
      {.name = "threads", .value = "T", .help = "Threads per rank, on which no bits depend. Default: cores / ranks."},
      {.name = "average", .help = "Take the moving averages of a checkpoint's weights (train.average_decay), not their last values."}};
  options.insert(options.end(), model.begin(), model.end());
  return options;
}

TrainedModel checkpointed_model(const std::string& path, const char* component, bool average) {
  const auto reader = open_checkpoint(path, component);
  if (average) runtime::check_averages(reader, component);
  TrainedModel found;
  found.checkpoint = reader.folder();
  found.model = model_of(reader, component);
  found.identity = reader.meta().identity;
  const auto run =
      is_run_directory(path) ? fs::path(path) : fs::absolute(fs::path(found.checkpoint)).lexically_normal().parent_path().parent_path();
  if (is_file(run / "run.toml")) found.run = run.string();
  return found;
}

TrainedModel find_model(const Arguments& arguments, const char* component) {
  MILLRACE_CHECK(arguments.given("model") != arguments.given("checkpoint"), ExitCode::usage, component, "{}, expected one of them",
                 arguments.given("model") ? "--model and --checkpoint are both given" : "neither --model nor --checkpoint is given");
  const bool average = arguments.given("average");
  if (arguments.given("checkpoint")) return checkpointed_model(arguments.text("checkpoint"), component, average);
  const std::string path = arguments.text("model");
  if (is_run_directory(path) || is_checkpoint(path)) return checkpointed_model(path, component, average);
  MILLRACE_CHECK(!average, ExitCode::usage, component, "--average for {}, expected a run directory or a checkpoint, which has averages",
                 path);
  std::error_code error;
  if (!layers::is_llmc_file(path)) {
    MILLRACE_CHECK(!is_file(path), ExitCode::model, component, "{}: a file, expected a model folder or llm.c's file of a GPT-2", path);
    MILLRACE_CHECK(fs::is_directory(path, error), ExitCode::model, component, "{}: there is no such folder", path);
    MILLRACE_CHECK(is_file(fs::path(path) / "config.json"), ExitCode::model, component,
                   "{}: no model, expected a folder with config.json and model.safetensors, a run directory or a checkpoint", path);
  }
  const auto config = layers::read_config_file(path);
  TrainedModel found;
  found.folder = path;
  found.model = config.model;
  found.losses = config.losses;
  found.warnings = config.warnings;
  return found;
}

configs::RunConfig configuration_of_run(const TrainedModel& model) {
  if (model.run.empty()) return {};
  configs::LoadRequest request;
  request.complete = false;
  request.files = {runtime::join_path(model.run, "run.toml")};
  request.overrides = {"model.preset="};  // the file has all sizes, and the folder of model.from may be gone: it is not read
  return configs::load(request).config;
}

actors::ForwardJob job_of(const TrainedModel& model, const Arguments& arguments, const actors::Session& session, std::int64_t rows,
                          std::int64_t sequence) {
  actors::ForwardJob job;
  job.folder = model.folder;
  job.checkpoint = model.checkpoint;
  job.average = arguments.given("average");
  if (!model.model.engram.layers.empty()) job.compression = compression_of(model, arguments);
  job.threads = static_cast<int>(arguments.integer("threads", 0, 0, 4096));
  auto& request = job.request;
  request.model = model.model;
  const auto recorded = model.identity.find("train.dtype");
  const bool bf16 = recorded != model.identity.end() && recorded->second.find("bf16") != std::string::npos;
  request.train.dtype = arguments.text("dtype", bf16 ? "bf16" : "fp32");
  request.train.batch = rows;
  request.train.sequence = sequence;
  request.pipeline.ranks = arguments.integer("ranks", session.launch().processes, 1, 4096);
  request.pipeline.chunks = arguments.integer("chunks", 1, 4096);
  request.pipeline.schedule = request.pipeline.chunks > 1 ? "looped-bfs" : "1f1b";
  request.pipeline.layout = arguments.text("layout");
  request.train.microbatches = 2 * request.pipeline.ranks;  // determines the channels' depth, and so how many are in flight
  return job;
}

std::string describe(const TrainedModel& model, const actors::ForwardJob& job) {
  const auto& config = model.model;
  return fmt::format("{} | {}{} | {}, hidden {}, vocabulary {} | {} | {} | {} each", layers::family_title(config),
                     actors::parameters_text(layers::model_parameters(config)), job.average ? ", their averages" : "",
                     counted(config.layers, "layer"), config.hidden_size, config.vocab_size, job.request.train.dtype,
                     counted(job.request.pipeline.ranks, "rank"), counted(job.threads, "thread"));
}

namespace {

/// Collective, also where only some processes have --threads; the session must be connected.
void resolve_threads(actors::ForwardJob& job, actors::Session& session) {
  std::int64_t threads = job.threads;
  if (threads == 0) threads = cluster::automatic_threads(session.topology(), session.launch(), cluster::usable_cores());
  const auto of_first = std::stoi(session.broadcast(std::to_string(threads)));
  if (job.threads == 0) job.threads = of_first;
}

}  // namespace

int run_job(actors::Session& session, actors::ForwardJob& job, const std::function<void()>& work) {
  session.connect(static_cast<int>(job.request.pipeline.ranks), {});
  session.carry_out([&] {
    resolve_threads(job, session);
    work();
  });
  return 0;
}

}  // namespace millrace::tools
