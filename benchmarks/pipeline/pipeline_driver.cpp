#include "benchmarks/pipeline/pipeline_driver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <caf/event_based_actor.hpp>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "actors/rank/initial_state.hpp"
#include "cluster/host/affinity.hpp"
#include "kernels/base/check.hpp"
#include "runtime/engine/optimizer_step.hpp"

namespace millrace::benchmarks {

PipelineArguments PipelineArguments::parse(int count, char** words, PipelineArguments arguments) {
  const std::map<std::string, std::int64_t*> numbers{{"layers", &arguments.layers},     {"hidden", &arguments.hidden},
                                                     {"mlp", &arguments.mlp},           {"heads", &arguments.heads},
                                                     {"kv_heads", &arguments.kv_heads}, {"vocabulary", &arguments.vocabulary},
                                                     {"rows", &arguments.rows},         {"sequence", &arguments.sequence},
                                                     {"ranks", &arguments.ranks},       {"microbatches", &arguments.microbatches},
                                                     {"threads", &arguments.threads},   {"steps", &arguments.steps},
                                                     {"experts", &arguments.experts},   {"experts_per_token", &arguments.experts_per_token},
                                                     {"expert", &arguments.expert},     {"data", &arguments.data}};
  const std::map<std::string, std::string*> texts{
      {"dtype", &arguments.dtype}, {"schedule", &arguments.schedule}, {"shard", &arguments.shard}, {"leaf", &arguments.leaf}};
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto equals = word.find('=');
    const std::string name = word.substr(0, equals), value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (const auto text = texts.find(name); text != texts.end()) {
      *text->second = value;
      continue;
    }
    if (name == "capacity" && !value.empty()) {
      arguments.capacity = std::stod(value);
      continue;
    }
    const auto number = numbers.find(name);
    MILLRACE_CHECK(number != numbers.end() && !value.empty(), ExitCode::usage, "benchmark", "{}: expected name=value, such as layers=2",
                   word);
    *number->second = std::stoll(value);
  }
  MILLRACE_CHECK(arguments.expert >= 1, ExitCode::usage, "benchmark", "expert={}, expected at least 1", arguments.expert);
  return arguments;
}

actors::PlanRequest PipelineArguments::request() const {
  actors::PlanRequest request;
  request.model.vocab_size = vocabulary;
  request.model.hidden_size = hidden;
  request.model.intermediate_size = mlp;
  request.model.layers = layers;
  request.model.heads = heads;
  request.model.kv_heads = kv_heads;
  request.model.head_dim = hidden / heads;
  if (experts > 0) {
    request.model.family = "mixtral";
    request.model.experts = experts;
    request.model.experts_per_token = experts_per_token;
  }
  request.mesh.expert = expert;
  request.mesh.data = data;
  request.mesh.capacity = capacity;
  request.mesh.shard = shard;
  request.train.dtype = dtype;
  request.train.batch = rows;
  request.train.sequence = sequence;
  request.train.microbatches = microbatches;
  request.train.accumulators = copies();
  request.train.expert_accumulators = copies() / expert;
  request.train.leaf = leaf;
  request.train.threads = threads;
  request.pipeline.ranks = ranks;
  request.pipeline.schedule = schedule;
  return request;
}

std::string PipelineArguments::text() const {
  std::string text = fmt::format("{} layers, hidden {}, vocabulary {}, {}, {} microbatches of {} x {}, {} ranks of {} threads, {}", layers,
                                 hidden, vocabulary, dtype, microbatches, rows, sequence, ranks, threads, schedule);
  if (experts > 0) text += fmt::format(", {} of {} experts, of {} ranks, capacity {}", experts_per_token, experts, expert, capacity);
  if (copies() > 1) text += fmt::format(", {} copies, shard {}", copies(), shard);
  return text;
}

int run_benchmark(int (*run)(int count, char** words), int count, char** words) {
  try {
    return run(count, words);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}

void RandomTokens::fill(std::int64_t step, std::int64_t microbatch, const runtime::BatchView& batch) const {
  const auto token = [&](std::size_t position) {  // splitmix64
    std::uint64_t x = (static_cast<std::uint64_t>(step) << 40) + (static_cast<std::uint64_t>(microbatch) << 28) + position + 1;
    x *= 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return static_cast<std::int32_t>((x ^ (x >> 31)) % static_cast<std::uint64_t>(vocabulary_));
  };
  for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
    batch.tokens[i] = token(i);
    batch.positions[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(sequence_));
    batch.segments[i] = 1;
    batch.targets[i] = token(i + 1);
    batch.samples[i] = 0;
  }
}

/// Takes the place of the coordinator.
class PipelineDriver::Conductor : public caf::event_based_actor {
 public:
  Conductor(caf::actor_config& config, PipelineDriver& driver) : caf::event_based_actor(config), driver_(driver) {}
  caf::behavior make_behavior() override {
    return {[this](const actors::ToCoordinator& message) {
      if (std::holds_alternative<actors::RankReady>(message)) return count(driver_.ready_);
      if (std::holds_alternative<actors::Optimized>(message)) return count(driver_.optimized_);
      if (const auto* report = std::get_if<actors::StepReport>(&message)) return reported(*report);
      if (const auto* failed = std::get_if<actors::StageFailed>(&message)) {
        const std::lock_guard lock(driver_.mutex_);
        driver_.failure_ = failed->cause;
        driver_.changed_.notify_one();
      }
    }};
  }

 private:
  void count(int& answers) {
    const std::lock_guard lock(driver_.mutex_);
    ++answers;
    driver_.changed_.notify_one();
  }
  void reported(const actors::StepReport& report) {
    for (const auto& term : report.losses)
      for (const double sum : term.sums) driver_.loss_ += sum;
    // A tensor that ranks divide has several sums. In any order: runtime::global_norm would sort them, and allocate.
    for (const auto& tensor : report.squares) driver_.square_by_tensor_[static_cast<std::size_t>(tensor.order)] += tensor.value;
    if (++driver_.reported_ < driver_.ranks_) return;
    driver_.norm_ = std::sqrt(std::accumulate(driver_.square_by_tensor_.begin(), driver_.square_by_tensor_.end(), 0.0));
    const double scale = runtime::clip_scale(driver_.norm_, driver_.clip_);
    driver_.to_ranks_(actors::Optimize{report.step, report.step + 1, scale, driver_.rate_});
  }
  PipelineDriver& driver_;
};

PipelineDriver::PipelineDriver(const PipelineArguments& arguments)
    : plan_(actors::make_plan(arguments.request())),
      ranks_(static_cast<int>(arguments.ranks * arguments.copies())),
      batches_(arguments.vocabulary, arguments.sequence, arguments.rows * arguments.sequence * arguments.microbatches),
      square_by_tensor_(plan_.parameters.size()) {
  session_.connect(ranks_, {});
  actors::RankResources options;
  options.threads = static_cast<int>(arguments.threads);
  cores_ = cluster::worker_cores(session_.topology(), session_.launch(), session_.cores(), options.threads).front();
  pipeline_ = std::make_unique<actors::Pipeline>(session_, plan_, options);
  for (auto* rank : pipeline_->ranks()) actors::initialize_from_seed(*rank, seed);
  actors::Pipeline::Start start;
  start.batches = &batches_;
  start.steps = std::int64_t{1} << 40;
  start.coordinator = [this](std::function<void(const actors::ToRank&)> to_ranks, const caf::actor&) {
    to_ranks_ = std::move(to_ranks);
    return pipeline_->system().spawn<Conductor>(*this);
  };
  pipeline_->start(start);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ready_ == ranks_; });
}

PipelineDriver::~PipelineDriver() {
  to_ranks_(actors::Stop{});
  pipeline_->wait();
  pipeline_->close();
  pipeline_.reset();
  session_.close();
}

PipelineDriver::Step PipelineDriver::step(double learning_rate, double clip) {
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  optimized_ = reported_ = 0;
  loss_ = 0;
  std::ranges::fill(square_by_tensor_, 0.0);
  rate_ = learning_rate;
  clip_ = clip;
  lock.unlock();
  to_ranks_(actors::RunStep{next_++});
  lock.lock();
  changed_.wait(lock, [this] { return optimized_ == ranks_ || !failure_.empty(); });
  MILLRACE_CHECK(failure_.empty(), ExitCode::internal, "benchmark", "step {}: {}", next_, failure_);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return {loss_ / static_cast<double>(batches_.valid_targets(0)), norm_, seconds};
}

}  // namespace millrace::benchmarks
