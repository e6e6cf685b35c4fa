#include "actors/planning/cost_probe.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <span>
#include <utility>

#include "cluster/host/host_cores.hpp"
#include "kernels/base/check.hpp"
#include "layers/initial_values.hpp"

namespace millrace::actors {
namespace {

using runtime::BackwardMode;
using runtime::Pass;

constexpr int in_flight = 4;  // as many as 1F1B has on the first of four ranks

std::vector<runtime::RankStage> with_slots(std::vector<runtime::RankStage> stages) {
  for (auto& stage : stages) {
    const bool first = &stage == &stages.front(), last = &stage == &stages.back();
    const bool results = !stage.training.losses.empty() || !stage.training.observations.empty();
    stage.slots = {in_flight, in_flight, in_flight, first ? 0 : in_flight, 0, last ? 0 : in_flight, 0, results ? in_flight : 0};
  }
  return stages;
}

runtime::RankOptions options_of(const actors::PlanRequest& request, BackwardMode mode, int threads, kernels::Device device) {
  runtime::RankOptions options;
  options.compute = runtime::compute_dtype(request.train);
  options.mode = mode;
  options.batches = in_flight;
  options.threads = threads;
  options.device = device;
  options.optimizer = runtime::make_optimizer(request.train);
  options.states_on_host = request.train.offload_states;
  options.leaves = request.train.leaf == "microbatch" ? 1 : 0;
  return options;
}

/// The initial values of a tensor, of a large one the first million again and again: a router's rows all differ, as in a run, while a
/// model's largest matrices take no time.
void fill_as_a_run_begins(const layers::ParameterSpec& spec, double range, std::span<float> values) {
  constexpr std::size_t most = std::size_t{1} << 20;
  const auto first = values.first(std::min(most, values.size()));
  layers::initial_values(spec, range, 0, 0, first);
  for (std::size_t place = most; place < values.size(); place += most)
    std::ranges::copy(first.first(std::min(most, values.size() - place)), values.subspan(place).begin());
}

}  // namespace

CostProbe::CostProbe(const ModelParts& parts, const actors::PlanRequest& request, BackwardMode mode, int threads, kernels::Device device)
    : mode_(mode),
      team_(threads, threads > cluster::usable_cores() ? cluster::cores_to_compute_on() : std::vector<int>()),
      device_context_(kernels::make_context(device)),
      context_(team_, kernels::Implementation::fast, device_context_.get()),
      rank_(with_slots(parts.stages(request.train)), options_of(request, mode, threads, device)) {
  fill_weights(parts);
  fill(request);
  for (int microbatch = 0; microbatch < in_flight; ++microbatch) rank_.upload(context_, microbatch);
}

/// With weights of zero every token would choose the same experts, and some processors multiply zeros faster.
void CostProbe::fill_weights(const ModelParts& parts) {
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const runtime::StageShard& shard = rank_.stages()[part]->shard();
    const auto specs = layers::parameters(parts.model, parts.layout[part]);
    for (const auto& tensor : shard.tensors()) {
      const auto spec = std::ranges::find(specs, tensor.name, &layers::ParameterSpec::name);
      MILLRACE_CHECK(spec != specs.end(), ExitCode::internal, "actors.plan", "the part's parameters lack {}", tensor.name);
      shard.fill(context_, shard.master(tensor),
                 [&](std::span<float> values) { fill_as_a_run_begins(*spec, parts.model.initializer_range, values); });
    }
    shard.refresh_copies(context_);
  }
}

/// Tokens spread over the whole table, like real ones.
void CostProbe::fill(const actors::PlanRequest& request) {
  const auto vocabulary = static_cast<std::size_t>(request.model.vocab_size);
  const auto sequence = static_cast<std::size_t>(request.train.sequence);
  const auto ids = static_cast<std::size_t>(request.model.engram.compressed_vocab_size);
  std::size_t next = 0;
  for (int microbatch = 0; microbatch < in_flight; ++microbatch) {
    const auto batch = rank_.batch(microbatch);
    runtime::pad(batch);
    for (std::size_t place = 0; place < batch.tokens.size(); ++place) {
      batch.tokens[place] = static_cast<std::int32_t>(next++ * 7919 % vocabulary);
      batch.targets[place] = static_cast<std::int32_t>(next * 7919 % vocabulary);
      batch.positions[place] = static_cast<std::int32_t>(place % sequence);
      batch.segments[place] = 1;
      batch.samples[place] = 1;
      if (ids > 0) batch.compressed[place] = static_cast<std::int32_t>(next * 7919 % ids);
    }
    rank_.set_loss_scales({static_cast<std::int64_t>(batch.tokens.size()), 1});
  }
}

runtime::ExecutionSlots CostProbe::slots_of(std::size_t part, int microbatch) const {
  const auto ring = [&](runtime::MemoryKind kind, std::size_t receiver) {
    return receiver < rank_.stages().size() ? rank_.memory().slot_or_null(kind, rank_.stages()[receiver]->stage(), microbatch) : nullptr;
  };
  runtime::ExecutionSlots slots;
  slots.boundary_in = part > 0 ? ring(runtime::MemoryKind::boundary_in, part) : nullptr;
  slots.boundary_out = ring(runtime::MemoryKind::boundary_in, part + 1);
  slots.gradient_in = part + 1 < rank_.stages().size() ? ring(runtime::MemoryKind::gradient_in, part) : nullptr;
  slots.gradient_out = part > 0 ? ring(runtime::MemoryKind::gradient_in, part - 1) : nullptr;
  slots.batch = slots.stash_input = slots.stash_weight = slots.handoff = slots.result = microbatch;
  return slots;
}

/// Every thread of the team reads its own clock.
void CostProbe::read_processor_times(std::vector<std::int64_t>& times) {
  times.resize(static_cast<std::size_t>(team_.size()));
  team_.run([&](int thread, int) {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    times[static_cast<std::size_t>(thread)] = time.tv_sec * 1'000'000'000 + time.tv_nsec;
  });
}

/// On a GPU the host's threads wait for most of the time: there the processor time is taken to be the time.
template <class Work>
CostSample CostProbe::sample(const Work& work) {
  read_processor_times(before_);
  const auto begin = std::chrono::steady_clock::now();
  work();
  device_context_->drain();
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begin;
  if (device_context_->device().kind != kernels::DeviceKind::cpu) return {taken.count(), taken.count()};
  read_processor_times(after_);
  std::int64_t most = 0;
  for (std::size_t thread = 0; thread < before_.size(); ++thread) most = std::max(most, after_[thread] - before_[thread]);
  return {taken.count(), static_cast<double>(most) * 1e-6};
}

std::vector<std::vector<CostSample>> CostProbe::run_updates(int repeats) {
  std::vector<std::vector<CostSample>> times(rank_.stages().size());
  for (int round = 0; round <= repeats; ++round) {
    for (std::size_t part = 0; part < times.size(); ++part) {
      const auto taken = sample([&] {
        runtime::compute_square_sums(context_, rank_.stages()[part]->shard());
        runtime::apply_optimizer(context_, {.learning_rate = 0, .gradient_scale = 1, .update = round + 1}, rank_.stages()[part]->shard());
      });
      if (round > 0) times[part].push_back(taken);
    }
  }
  return times;
}

std::vector<PassTimes> CostProbe::run(int repeats) {
  const std::size_t parts = rank_.stages().size();
  const auto backward =
      mode_ == BackwardMode::split ? std::vector{Pass::input_gradient, Pass::weight_gradient} : std::vector{Pass::backward};
  std::vector<PassTimes> times;
  for (std::size_t part = 0; part < parts; ++part) times.push_back({part, Pass::forward, {}});
  for (std::size_t part = parts; part-- > 0;)
    for (const Pass pass : backward) times.push_back({part, pass, {}});
  // The first round fills the pipeline, the second touches the outputs of backward for the first time. After that each
  // microbatch's backward is followed by the forward of the next one.
  constexpr int warm_up = 2;
  for (int round = 0; round < warm_up + repeats; ++round) {
    for (int microbatch = 0; microbatch < in_flight; ++microbatch) {
      const auto record = [&](PassTimes& of) {
        const auto taken = sample([&] { rank_.stages()[of.part]->run(of.pass, context_, slots_of(of.part, microbatch)); });
        if (round >= warm_up) of.runs.push_back(taken);
      };
      if (round > 0)
        for (auto of = times.begin() + static_cast<std::ptrdiff_t>(parts); of != times.end(); ++of) record(*of);
      for (auto of = times.begin(); of != times.begin() + static_cast<std::ptrdiff_t>(parts); ++of) record(*of);
    }
  }
  return times;
}

}  // namespace millrace::actors
