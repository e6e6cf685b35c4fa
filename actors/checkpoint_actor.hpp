#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/message_actor.hpp"
#include "actors/messages/messages.hpp"
#include "actors/rank/rank.hpp"
#include "runtime/batch_ramp.hpp"
#include "runtime/checkpoint/checkpoint_file.hpp"
#include "runtime/engine/trace.hpp"
#include "runtime/io/metrics_file.hpp"

namespace millrace::actors {

/// What the checkpoint actor of a process needs.
struct CheckpointActorSetup {
  std::vector<Rank*> ranks;                   // of this process; must outlive the actor
  runtime::CheckpointStore* store = nullptr;  // only in process 0
  runtime::MetricsFile* metrics = nullptr;    // only in process 0: synced before a commit, so that no committed step lacks its line
  runtime::TraceRing* trace = nullptr;        // the checkpoint lane
  std::map<std::string, std::string> identity, notes;
  runtime::BatchRamp microbatches;  // of each step
  std::int64_t rows = 0;            // of a microbatch
};

/// Writes the staged state of its process's ranks while they compute. In process 0 it is also the only one to begin, commit and
/// discard checkpoints. Spawned detached: it waits for the disk on a thread of its own, possibly for minutes while gigabytes are
/// written or deleted.
class CheckpointActor : public MessageActor {
 public:
  CheckpointActor(caf::actor_config& config, CheckpointActorSetup setup);
  caf::behavior make_behavior() override;
  [[nodiscard]] const char* name() const override { return "checkpoint"; }

 private:
  [[nodiscard]] ShardWritten write(const WriteShard& request);
  [[nodiscard]] CheckpointCommitted commit(const CommitCheckpoint& request);
  [[nodiscard]] CheckpointCommitted discard(const DiscardCheckpoint& request);
  CheckpointActorSetup setup_;
};

}  // namespace millrace::actors
