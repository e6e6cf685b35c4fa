#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "runtime/engine/rank_engine.hpp"
#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {

/// How the two ends of an edge share memory.
enum class Ring {
  shared,    // in process: one ring; the producer gets its slot back when the consumer releases it
  two_ends,  // over a network: a ring on each side; the producer gets its slot back when the token has been transferred
};

/// Drives the engines of all ranks without threads: workers, messages and the loader are queues, and a random choice (or a
/// priority) decides which moves next. Checks on the way that no slot is written while it is held, and that every read finds what
/// was written.
class EnginePump {
 public:
  struct Options {
    Ring ring = Ring::shared;
    int issue_ahead = 2;
    unsigned seed = 1;
    int slow_rank = -1;            // its worker moves only if nothing else can
    bool prompt_messages = false;  // messages are delivered before anything else moves
    // Ranks that exchange with each other, each with a list of the same shape; a rank outside of all groups exchanges with itself.
    std::vector<std::vector<std::size_t>> groups = {};
  };

  EnginePump(const Placement& placement, std::vector<int> depths, Options options)
      : edges_(edges_of(placement)), depths_(std::move(depths)), options_(options), random_(options.seed) {
    for (int rank = 0; rank < placement.ranks(); ++rank) {
      engines_.push_back(std::make_unique<RankEngine>(RankEngine::Options{RankId{rank}, edges_, depths_, options_.issue_ahead}));
    }
    workers_.resize(engines_.size());
    batches_.resize(engines_.size());
    ran_.resize(engines_.size());
    tokens_.resize(edges_.size());
    credits_.resize(edges_.size());
    posts_.assign(engines_.size(), 0);
    exchanges_.resize(engines_.size());
    group_of_.resize(engines_.size());
    for (std::size_t rank = 0; rank < engines_.size(); ++rank) group_of_[rank] = {rank};
    for (const auto& group : options_.groups)
      for (const std::size_t rank : group) group_of_[rank] = group;
    passed_.assign(edges_.size(), 0);
    posted_.assign(edges_.size(), 0);
    for (const Edge& edge : edges_) {
      const auto depth = static_cast<std::size_t>(depths_[edge.id.index()]);
      written_.emplace_back(depth, -1);
      landed_.emplace_back(depth, -1);
      posted_[edge.id.index()] = depths_[edge.id.index()];
    }
  }

  /// Runs one list on every rank; returns false on a deadlock.
  bool run(const Schedule& schedule, const std::vector<StashSlots>& slots, StepId step, const std::vector<StageShape>& shapes = {}) {
    plans_.clear();
    for (auto& ran : ran_) ran.clear();
    for (std::size_t rank = 0; rank < engines_.size(); ++rank) plans_.push_back(make_rank_plan(schedule, RankId{rank}, slots, shapes));
    finished_ = 0;
    std::vector<std::size_t> to_start(engines_.size());
    for (std::size_t rank = 0; rank < engines_.size(); ++rank) to_start[rank] = rank;
    std::shuffle(to_start.begin(), to_start.end(), random_);
    while (true) {
      // Ranks start at different times: tokens of the new step may reach a rank that has not started it.
      if (!to_start.empty() && (random_() % 4 == 0 || !move())) {
        start(to_start.back(), schedule.microbatches, step);
        to_start.pop_back();
      } else if (to_start.empty() && !move()) {
        break;
      }
    }
    return finished_ == engines_.size();
  }

  [[nodiscard]] const std::vector<Action>& ran(std::size_t rank) const { return ran_[rank]; }
  [[nodiscard]] RankEngine& engine(std::size_t rank) { return *engines_[rank]; }
  [[nodiscard]] std::int64_t passed(EdgeId edge) const { return passed_[edge.index()]; }  // tokens sent
  [[nodiscard]] int credit_waits() const { return credit_waits_; }                        // times that an idle rank lacked only a slot

 private:
  enum class StreamKind { worker, token, credit, batch, exchange };
  struct Move {
    StreamKind lane;
    std::size_t index;
  };

  void start(std::size_t rank, int microbatches, StepId step) {
    for (int m = 0; m < microbatches; ++m) batches_[rank].emplace_back(m);
    apply(rank, engines_[rank]->start(plans_[rank], step));
  }

  // One random step of anything that can move; returns false if nothing can.
  bool move() {
    std::vector<Move> messages;
    std::vector<Move> workers;
    std::vector<Move> slow;
    for (std::size_t edge = 0; edge < edges_.size(); ++edge) {
      const bool room = options_.ring == Ring::shared || posted_[edge] > 0;
      if (!tokens_[edge].empty() && room) messages.push_back({StreamKind::token, edge});
      if (!credits_[edge].empty()) messages.push_back({StreamKind::credit, edge});
    }
    for (std::size_t rank = 0; rank < engines_.size(); ++rank) {
      if (!exchanges_[rank].empty()) messages.push_back({StreamKind::exchange, rank});
      if (!batches_[rank].empty() && engines_[rank]->running()) messages.push_back({StreamKind::batch, rank});
      if (!workers_[rank].empty()) (static_cast<int>(rank) == options_.slow_rank ? slow : workers).push_back({StreamKind::worker, rank});
    }
    if (messages.empty()) note_credit_waits();
    std::vector<Move> choice = messages;
    if (!options_.prompt_messages || messages.empty()) choice.insert(choice.end(), workers.begin(), workers.end());
    if (choice.empty()) choice = slow;
    if (choice.empty()) return false;
    carry_out(choice[random_() % choice.size()]);
    return true;
  }

  // With no message in flight, an idle rank that lacks a slot really lacks it.
  void note_credit_waits() {
    for (const auto& engine : engines_) credit_waits_ += engine->wait().reason == WaitReason::credit;
  }

  void carry_out(const Move& next) {
    switch (next.lane) {
      case StreamKind::worker:
        finish(next.index);
        break;
      case StreamKind::token:
        deliver(next.index);
        break;
      case StreamKind::credit: {
        const std::int64_t sequence = take(credits_[next.index]);
        const std::size_t rank = edges_[next.index].producer_rank.index();
        apply(rank, engines_[rank]->credit_returned(EdgeId{next.index}, sequence));
        break;
      }
      case StreamKind::exchange: {
        // Exchanges may end in any order.
        auto& ended = exchanges_[next.index];
        std::swap(ended.front(), ended[random_() % ended.size()]);
        apply(next.index, engines_[next.index]->exchange_ended(take(ended)));
        break;
      }
      case StreamKind::batch:
        apply(next.index, engines_[next.index]->batch_ready(take(batches_[next.index])));
        break;
    }
  }

  // The worker runs an action: it reads its slots and writes its output.
  void finish(std::size_t rank) {
    const Issue issue = take(workers_[rank]);
    for (const RingSlot& input : {issue.activation, issue.gradient}) {
      if (!input.present()) continue;
      const bool shared = options_.ring == Ring::shared || edges_[input.edge.index()].local();
      const auto& ring = (shared ? written_ : landed_)[input.edge.index()];
      EXPECT_EQ(ring[static_cast<std::size_t>(input.slot)], input.sequence) << to_string(issue.action) << " reads another token";
    }
    if (issue.output.present() && issue.segment + 1 == issue.segments)
      written_[issue.output.edge.index()][static_cast<std::size_t>(issue.output.slot)] = issue.output.sequence;
    if (issue.segment + 1 == issue.segments) ran_[rank].push_back(issue.action);
    EXPECT_EQ(issue.first_exchange, posts_[rank]) << "exchanges are posted in the order of their numbers";
    for (int post = 0; post < issue.posts; ++post) post_exchange(rank);
    apply(rank, engines_[rank]->entry_finished(issue.action, issue.segment));
  }

  // An exchange ends once every member of the group has posted it.
  void post_exchange(std::size_t rank) {
    const std::int64_t sequence = posts_[rank]++;
    const auto& group = group_of_[rank];
    if (std::ranges::all_of(group, [&](std::size_t member) { return posts_[member] > sequence; }))
      for (const std::size_t member : group) exchanges_[member].push_back(sequence);
  }

  void deliver(std::size_t edge) {
    const RingSlot token = take(tokens_[edge]);
    if (options_.ring == Ring::two_ends) {
      EXPECT_EQ(written_[edge][static_cast<std::size_t>(token.slot)], token.sequence) << "a slot was overwritten before it was sent";
      EXPECT_EQ(landed_[edge][static_cast<std::size_t>(token.slot)], -1) << "a token landed on another";
      landed_[edge][static_cast<std::size_t>(token.slot)] = token.sequence;
      --posted_[edge];
      credits_[edge].push_back(token.sequence);
    }
    const std::size_t rank = edges_[edge].consumer_rank.index();
    apply(rank, engines_[rank]->boundary_arrived(EdgeId{edge}, token.sequence));
  }

  void apply(std::size_t rank, const Decisions& decisions) {
    for (const RingSlot& send : decisions.sends) {
      EXPECT_EQ(send.sequence, passed_[send.edge.index()]++) << "sends of an edge are in order";
      tokens_[send.edge.index()].push_back(send);
    }
    for (const RingSlot& release : decisions.releases) {
      const std::size_t edge = release.edge.index();
      auto& ring = options_.ring == Ring::shared ? written_ : landed_;
      EXPECT_EQ(ring[edge][static_cast<std::size_t>(release.slot)], release.sequence) << "released something else";
      ring[edge][static_cast<std::size_t>(release.slot)] = -1;
      options_.ring == Ring::shared ? credits_[edge].push_back(release.sequence) : void(++posted_[edge]);
    }
    for (const Issue& issue : decisions.issues) {
      if (options_.ring == Ring::shared && issue.segment == 0 && issue.output.present() && !edges_[issue.output.edge.index()].local()) {
        EXPECT_EQ(written_[issue.output.edge.index()][static_cast<std::size_t>(issue.output.slot)], -1) << "a ring overflows";
      }
      workers_[rank].push_back(issue);
    }
    EXPECT_LE(static_cast<int>(workers_[rank].size()), options_.issue_ahead);
    finished_ += decisions.finished;
  }

  template <class Value>
  static Value take(std::deque<Value>& queue) {
    Value front = queue.front();
    queue.pop_front();
    return front;
  }

  std::vector<Edge> edges_;
  std::vector<int> depths_;
  Options options_;
  std::mt19937 random_;
  std::vector<std::unique_ptr<RankEngine>> engines_;
  std::vector<RankPlan> plans_;
  std::vector<std::deque<Issue>> workers_;           // by rank
  std::vector<std::deque<MicrobatchId>> batches_;    // by rank
  std::vector<std::deque<RingSlot>> tokens_;         // by edge: in flight
  std::vector<std::deque<std::int64_t>> credits_;    // by edge: in flight back to the producer
  std::vector<std::int64_t> posts_;                  // by rank: number of posted exchanges
  std::vector<std::deque<std::int64_t>> exchanges_;  // by rank: have ended, and it was not told
  std::vector<std::vector<std::size_t>> group_of_;   // by rank
  std::vector<std::int64_t> passed_;                 // by edge
  std::vector<int> posted_;                          // by edge: free slots on the consumer's side
  std::vector<std::vector<std::int64_t>> written_;   // by edge and slot: contents on the producer's side; -1: empty
  std::vector<std::vector<std::int64_t>> landed_;    // the same on the consumer's side
  std::vector<std::vector<Action>> ran_;             // by rank
  std::size_t finished_ = 0;
  int credit_waits_ = 0;
};

}  // namespace millrace::runtime
