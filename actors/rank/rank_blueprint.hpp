#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/setup/pipeline_plan.hpp"
#include "runtime/engine/rank_compute.hpp"
#include "runtime/engine/rank_plan.hpp"

namespace millrace::actors {

/// What a run asks of a rank beyond its plan.
struct RankResources {
  int threads = 1;
  std::int64_t evaluation_microbatches = 0;  // of one evaluation
  int ranks_per_process = 1;                 // consecutive ranks share a process
  bool staging = false;                      // room for snapshots
  bool logits = false;                       // the head also has a program that ends in logits
  bool training = true;                      // false: forwards alone, without room for optimizer states, gradients and what backward needs
  std::vector<kernels::Device> devices;      // of the process's ranks, by place; empty: all on the CPU
  kernels::DeviceContext::Options queue;     // of a rank on a GPU
  bool mpi_reaches_devices = false;          // MPI was built to send from and receive into a GPU's memory

  [[nodiscard]] kernels::Device device_of(int rank) const {
    return devices.empty() ? kernels::Device{} : devices[static_cast<std::size_t>(rank % ranks_per_process) % devices.size()];
  }
};

/// One rank as it is to be built, before a byte is asked for: its three tables, how many microbatches' tokens it holds, its stages and
/// memory. The rank is made from it, and `millrace inspect` shows it.
struct RankBlueprint {
  RankBlueprint(const PipelinePlan& plan, runtime::RankId rank, const RankResources& needs);

  runtime::RankPlan training, evaluation, logits;
  int training_batches = 1;    // slots of a ring of batches; a step's microbatches take their turns in it, the first of the next step too
  int evaluation_batches = 1;  // another ring behind it
  /// Programs, layout and memory plan; with `plan_only` no arena.
  [[nodiscard]] std::unique_ptr<runtime::RankCompute> build(bool plan_only) const;

 private:
  const PipelinePlan& plan_;
  runtime::RankId rank_;
  RankResources needs_;
};

/// Microbatches whose tokens are in use at a time in a list: from the first action on one to the last.
[[nodiscard]] int batches_in_flight(const runtime::RankPlan& plan);

}  // namespace millrace::actors
