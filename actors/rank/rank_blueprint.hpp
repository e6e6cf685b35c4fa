#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/setup/pipeline_plan.hpp"
#include "runtime/data/token_compression.hpp"
#include "runtime/engine/rank_compute.hpp"
#include "runtime/engine/rank_plan.hpp"

namespace millrace::actors {

/// What a run requires of a rank beyond its plan.
struct RankResources {
  int threads = 1;
  bool threads_by_option = false;            // given with --threads rather than with train.threads, for messages
  std::int64_t evaluation_microbatches = 0;  // per evaluation
  int ranks_per_process = 1;                 // consecutive ranks share a process
  bool staging = false;                      // memory for snapshots
  bool logits = false;                       // the head also has a program that ends in logits
  bool training = true;                      // false: forwards alone, without room for optimizer states, gradients and what backward needs
  std::vector<kernels::Device> devices;      // of the process's ranks, in order; empty: all on the CPU
  kernels::DeviceOptions device_options;     // of the devices' contexts
  std::shared_ptr<const runtime::TokenCompression> compression;  // of the tokens, for n-gram memories; may be null for other models
  bool mpi_reaches_devices = false;                              // MPI can send from and receive into GPU memory

  [[nodiscard]] kernels::Device device_of(int rank) const {
    return devices.empty() ? kernels::Device{} : devices[static_cast<std::size_t>(rank % ranks_per_process) % devices.size()];
  }
};

/// A rank as planned, before anything is allocated: its three tables, the number of batches that it holds, its stages and memory.
/// The rank is built from it, and `millrace inspect` shows it.
struct RankBlueprint {
  RankBlueprint(const PipelinePlan& plan, runtime::RankId rank, const RankResources& needs);

  runtime::RankPlan training, evaluation, logits;
  std::vector<runtime::RankPlan> smaller_training;  // of the steps before the batch has grown, in the order of the plan's schedules
  // slots of a ring of batches; the microbatches of a step use them in turn, and so do the first ones of the next step
  int training_batches = 1;
  int evaluation_batches = 1;  // a second ring
  /// Programs, layout and memory plan; with `plan_only` without arena.
  [[nodiscard]] std::unique_ptr<runtime::RankCompute> build(bool plan_only) const;

 private:
  /// The segments of the actions of the rank's stages, by StageId, in training steps and in forward-only lists; empty if no rank exchanges.
  struct Shapes {
    std::vector<runtime::StageShape> training, forward_only;
  };
  [[nodiscard]] Shapes shapes() const;

  const PipelinePlan& plan_;
  runtime::RankId rank_;
  RankResources needs_;
};

/// A stage's parameter as its shard holds it, with the plan's rules of the optimizer. These see the whole tensor, whoever has which experts
/// of it.
[[nodiscard]] runtime::StageParameter stage_parameter(const PipelinePlan& plan, const layers::ParameterSpec& spec, runtime::StageId stage);

/// The groups of replicas that divide the update of the rank's weights, stage by stage, in an order that all members of a group share: that
/// in which a step's list completes their gradients.
[[nodiscard]] std::vector<runtime::StageReplicas> stage_replicas(const PipelinePlan& plan, runtime::RankId rank);

/// The number of microbatches whose tokens are in use at a time in a list: from the first action on one to the last.
[[nodiscard]] int batches_in_flight(const runtime::RankPlan& plan);

}  // namespace millrace::actors
