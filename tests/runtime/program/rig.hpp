#pragma once

#include <array>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/buffer.hpp"
#include "kernels/base/thread_team.hpp"
#include "runtime/passes/differentiate.hpp"
#include "runtime/program/executor.hpp"
#include "tests/runtime/program/small_net.hpp"

namespace millrace::runtime::testing {

/// One stage with its own memory: parameters are functions of their names, a batch of its positions; one slot of every region.
class Rig {
 public:
  struct Options {
    BackwardMode mode = BackwardMode::split;
    std::string policy = "none";
    kernels::Implementation implementation = kernels::Implementation::reference;
    int threads = 1;
  };
  Rig(const SmallNet& net, Options options);
  /// Another program with the net's rows, sequence and vocabulary.
  Rig(ForwardProgram program, const SmallNet& net, Options options);

  void run(ProgramKind kind, OperationHook* hook = nullptr);
  void run_segment(ProgramKind kind, std::size_t segment, ExchangePort* port, OperationHook* hook = nullptr);
  /// Runs I then W, or B, depending on the mode.
  void run_backward(OperationHook* hook = nullptr);

  [[nodiscard]] std::span<std::byte> region(Region region) { return buffers_[static_cast<std::size_t>(region)].bytes(); }
  /// What the plan reserves for a region.
  [[nodiscard]] std::size_t planned_bytes(Region region) const { return plan.region_bytes[static_cast<std::size_t>(region)]; }
  [[nodiscard]] double loss();
  /// A master parameter in memory, for changes; refresh() updates the bf16 and packed copies.
  [[nodiscard]] std::span<float> master(const std::string& name);
  void refresh();
  /// The fp32 sums, by (name, use).
  [[nodiscard]] std::map<std::pair<std::string, int>, std::vector<float>> accumulators();
  void fill(Region region, std::byte pattern);

  static constexpr float loss_scale = 0.125F;
  static constexpr std::size_t guard = 4096;  // bytes after each region that no operation may touch

  ProgramSet set;
  MemoryPlan plan;
  Bindings bindings;

 private:
  struct Parameter {
    std::size_t offset = 0;  // in fp32 bytes; the copies lie at half of it
    std::int64_t elements = 0;
    bool vector = false;
  };
  struct Packed {
    std::size_t offset = 0;
    ValueType type;
  };
  void lay_out_parameters();
  void lay_out_packed(const Value& value);
  void allocate();
  void fill_batch(const SmallNet& net);

  std::map<std::string, Parameter> parameters_;
  std::map<std::pair<std::string, int>, Parameter> accumulators_;
  std::map<std::pair<std::string, WeightForm>, Packed> packed_;  // stored after the bf16 copies
  std::size_t parameter_bytes_ = 0, packed_bytes_ = 0, accumulator_bytes_ = 0;
  std::array<kernels::Buffer, region_count> buffers_;
  kernels::ThreadTeam team_;
  kernels::ExecutionContext context_;
  std::unique_ptr<Executor> executor_;
};

/// Runs the forward program, then run_backward().
void run(Rig& rig);

/// Types of the results that the operation's rule infers from these operands; empty if it rejects them.
[[nodiscard]] std::vector<ValueType> inferred_types(const Operation& operation, const std::vector<ValueType>& inputs);

}  // namespace millrace::runtime::testing
