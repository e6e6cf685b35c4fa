#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/rank/action_runner.hpp"
#include "actors/rank/initial_state.hpp"
#include "actors/rank/rank_control.hpp"
#include "cluster/topology.hpp"

namespace millrace::actors {

/// Every row is different, in each step and microbatch; every token but the last has a target.
class NumberedBatches final : public BatchProvider {
 public:
  explicit NumberedBatches(std::int64_t targets) : targets_(targets) {}
  void fill(std::int64_t step, std::int64_t microbatch, const runtime::BatchView& batch) const override {
    row(100 * step + microbatch, batch);
  }
  [[nodiscard]] std::int64_t valid_targets(std::int64_t) const override { return targets_; }
  [[nodiscard]] std::int64_t evaluation_microbatches() const override { return 3; }
  void fill_evaluation(std::int64_t microbatch, const runtime::BatchView& batch) const override { row(7000 + microbatch, batch); }
  [[nodiscard]] std::int64_t evaluation_targets(std::int64_t) const override { return 0; }

 private:
  static void row(std::int64_t number, const runtime::BatchView& batch) {
    for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
      const auto place = static_cast<std::int32_t>(i);
      batch.tokens[i] = static_cast<std::int32_t>((static_cast<std::int64_t>(i * i) * 5 + number * 11) % 61);
      batch.positions[i] = place;
      batch.segments[i] = 1;
      batch.targets[i] = i + 1 < batch.tokens.size() ? (place * 3 + static_cast<std::int32_t>(number)) % 61 : -1;
      batch.samples[i] = 0;
    }
  }
  std::int64_t targets_;
};

struct BenchOptions {
  std::string schedule = "1f1b";
  int copies = 1, ranks = 2, microbatches = 4;  // ranks of each copy
  std::int64_t first_step = 0, steps = 9, targets = 28;
  int issue_ahead = max_issue_ahead;
  bool tied = true;
  std::int64_t accumulators = 1;
  std::int64_t chunks = 1, layers = 2;
  bool divides = false;  // mesh.shard = optimizer
  bool leaves = false;   // train.leaf = microbatch, and mesh.shard = gradients where there are copies
  std::size_t window = std::size_t{4} << 20;
  double average = 0;          // train.average_decay
  bool gathers_first = false;  // RankControlSetup::gathers_first
  std::string family = "llama";
  std::function<std::vector<CapturedTensor>()> captured;
  std::function<kernels::DeviceMemory()> device_memory;
};

/// Runs the controls of all ranks of a small pipeline in one thread. The test delivers their events in the order of arrival, and
/// may hold some back.
class Bench {
 public:
  explicit Bench(BenchOptions options) : batches_(options.targets) {
    PlanRequest request;
    request.model.vocab_size = 61;
    request.model.hidden_size = 16;
    request.model.intermediate_size = 24;
    request.model.family = options.family;
    request.model.layers = options.layers;
    request.model.heads = 2;
    request.model.kv_heads = 1;
    request.model.head_dim = 8;
    request.model.tie_word_embeddings = options.tied;
    request.train.batch = 1;
    request.train.sequence = 8;
    request.train.microbatches = options.microbatches;
    request.train.accumulators = options.accumulators;
    request.train.average_decay = options.average;
    request.pipeline.ranks = options.ranks;
    request.mesh.data = options.copies;
    if (options.divides) request.mesh.shard = "optimizer";
    if (options.leaves) request.train.leaf = "microbatch";
    if (options.leaves && options.copies > 1) request.mesh.shard = "gradients";
    request.mesh.window = options.window;
    const int ranks = options.copies * options.ranks;
    request.pipeline.chunks = options.chunks;
    request.pipeline.schedule = options.schedule;
    plan = make_plan(request);
    std::vector<HostedRank> all;
    for (int index = 0; index < ranks; ++index) {
      seats.push_back(std::make_unique<Seat>(*this));
      auto& seat = *seats.back();
      RankSetup setup;
      setup.id = runtime::RankId(index);
      setup.needs.ranks_per_process = ranks;
      setup.needs.evaluation_microbatches = 3;
      setup.needs.staging = setup.needs.logits = true;
      seat.rank = std::make_unique<Rank>(plan, setup);
      initialize_from_seed(*seat.rank, 5);
      RankControlSetup control;
      control.rank = seat.rank.get();
      control.batches = &batches_;
      control.first_step = options.first_step;
      control.steps = options.steps;
      control.issue_ahead = options.issue_ahead;
      control.gathers_first = options.gathers_first;
      control.captured = options.captured;
      control.device_memory = options.device_memory;
      seat.control = std::make_unique<RankControl>(control, seat);
      all.push_back({seat.rank.get(), &seat});
    }
    links_ = connect(plan, cluster::Topology(ranks, 1, 0), nullptr, all);
    replicas_ = connect_replicas(plan, cluster::Topology(ranks, 1, 0), nullptr, all);
  }

  struct Seat final : RankPort, RankEvents {
    explicit Seat(Bench& owner) : bench(owner) {}
    void execute(const Execute& execute) override {
      executes.push_back(execute);
      bench.post("action", [this, execute] {
        const std::int64_t begin = runtime::steady_now();
        rank->worker().run([&] { rank->runner().run(*rank, rank->compute().stage(execute.action.stage), execute); });
        control->action_done({execute.action, execute.segment, begin, runtime::steady_now()});
      });
    }
    void work(const RankTask& task) override {
      tasks.push_back(task);
      bench.post("work", [this, task] {
        rank->worker().run([&] {
          control->perform(task);
          control->perform_then(task, {});
        });
        control->work_done({task.work, 1, 2});
      });
    }
    void load(const LoadBatch& request) override {
      loads.push_back(request);
      bench.post("batch", [this, request] {
        const auto view = rank->compute().batch(request.slot);
        if (request.held_out) {
          bench.batches_.fill_evaluation(request.microbatch, view);
        } else {
          bench.batches_.fill(request.step, request.microbatch, view);
        }
        control->batch_ready(request);
      });
    }
    void report(const ToCoordinator& message) override { reports.push_back(message); }
    void write_shard(const WriteShard& request) override { shards.push_back(request); }
    void begun() override { ++begins; }
    void stopped() override { ++stops; }
    void on_arrival(const cluster::Arrival& arrival) override {
      bench.post("token", [this, arrival] { control->boundary_arrived(arrival); });
    }
    void on_writable(int channel, std::int64_t sequence) override {
      bench.post("credit", [this, channel, sequence] { control->slot_writable(channel, sequence); });
    }
    void on_exchanged(int, std::int64_t) override { ADD_FAILURE() << "no rank of the bench shares experts"; }
    void on_replicas_exchanged() override {
      bench.post("replicas", [this] { control->replicas_exchanged(); });
    }
    void failed(const TaskFailed& failure) override { control->failed(failure); }

    /// The activity that the rank reports.
    [[nodiscard]] std::string doing() const { return to_text(rank->progress().progress); }
    template <class Message>
    [[nodiscard]] std::vector<Message> reported() const {
      std::vector<Message> found;
      for (const auto& message : reports)
        if (const auto* one = std::get_if<Message>(&message)) found.push_back(*one);
      return found;
    }
    [[nodiscard]] std::vector<runtime::TraceRecord> spans(runtime::SpanKind kind) const {
      std::vector<runtime::TraceRecord> found;
      for (const auto& record : rank->trace().snapshot())
        if (record.kind == kind) found.push_back(record);
      return found;
    }

    Bench& bench;
    std::unique_ptr<Rank> rank;
    std::unique_ptr<RankControl> control;
    std::vector<Execute> executes;
    std::vector<RankTask> tasks;
    std::vector<LoadBatch> loads;
    std::vector<ToCoordinator> reports;
    std::vector<WriteShard> shards;
    int begins = 0, stops = 0;
  };

  /// Delivers all events except those of a kind that is held back: action, work, batch, token, credit, replicas.
  void settle(const std::set<std::string>& held = {}) {
    while (step(held)) continue;
  }
  /// Delivers one event. Returns false if there is none.
  bool step(const std::set<std::string>& held = {}) {
    const auto next = std::ranges::find_if(events_, [&](const auto& event) { return !held.contains(event.first); });
    if (next == events_.end()) return false;
    const auto event = std::move(next->second);
    events_.erase(next);
    event();
    return true;
  }
  /// The number of events of a kind that were not delivered.
  [[nodiscard]] std::ptrdiff_t pending(const std::string& kind) const {
    return std::ranges::count_if(events_, [&](const auto& event) { return event.first == kind; });
  }
  void post(const char* kind, std::function<void()> event) { events_.emplace_back(kind, std::move(event)); }

  void begin() {
    for (auto& seat : seats) seat->control->begin();
    settle();
  }
  void tell(const ToRank& message, const std::set<std::string>& held = {}) {
    for (auto& seat : seats) seat->control->receive(message);
    settle(held);
  }
  void train(std::int64_t step) {
    tell(RunStep{step, false, false});
    tell(Optimize{step, step + 1, 0.5, 0.01});
  }
  [[nodiscard]] std::vector<double> losses() const { return seats.back()->reported<StepReport>().back().losses.at(0).sums; }
  /// The bits of all parameters of a rank.
  [[nodiscard]] std::vector<std::byte> parameters(std::size_t rank) const {
    std::vector<std::byte> bytes;
    for (const auto* stage : seats[rank]->rank->compute().stages()) {
      for (const auto& tensor : stage->shard().tensors()) {
        const kernels::Tensor values = stage->shard().master(tensor);
        bytes.insert(bytes.end(), values.data, values.data + values.bytes());
      }
    }
    return bytes;
  }
  /// Square sums of all gradients in the newest reports, by tensor; a tensor that is on two ranks counts once.
  [[nodiscard]] std::vector<double> squares() const {
    std::vector<double> found(plan.parameters.size(), -1);
    for (const auto& seat : seats) {
      const auto report = seat->reported<StepReport>().back();
      for (const auto& sum : report.squares) found.at(static_cast<std::size_t>(sum.order)) = sum.value;
    }
    return found;
  }

  PipelinePlan plan;
  std::vector<std::unique_ptr<Seat>> seats;

 private:
  NumberedBatches batches_;
  std::deque<std::pair<std::string, std::function<void()>>> events_;
  std::unique_ptr<cluster::Links> links_;
  std::unique_ptr<cluster::Exchanges> replicas_;
};

}  // namespace millrace::actors
