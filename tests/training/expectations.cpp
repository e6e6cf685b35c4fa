#include "tests/training/expectations.hpp"

#include <gtest/gtest.h>

#include <set>

namespace millrace::tests {

void expect_own_parameters_alone(actors::Pipeline& pipeline) {
  for (auto* rank : pipeline.ranks()) {
    const auto& plan = rank->plan();
    std::set<std::string> own, held;
    std::size_t bytes = 0;
    for (const auto stage : plan.schedule.placement.stages_of(rank->id())) {
      for (const auto& spec : layers::parameters(plan.model, plan.layout.at(stage.index()))) {
        if (own.insert(spec.name).second) bytes += kernels::align_up(static_cast<std::size_t>(spec.shape.elements()) * sizeof(float));
      }
    }
    for (const auto* stage : rank->compute().stages())
      for (const auto& tensor : stage->shard().tensors()) held.insert(tensor.name);
    EXPECT_EQ(held, own) << "rank " << rank->id().value;
    EXPECT_LT(own.size(), plan.parameters.size());
    const auto& memory = rank->compute().memory().plan();
    using runtime::MemoryKind;
    EXPECT_EQ(memory.bytes(MemoryKind::master), bytes) << "rank " << rank->id().value;
    EXPECT_EQ(memory.bytes(MemoryKind::state), 2 * bytes) << "rank " << rank->id().value << ": AdamW's two states";
    EXPECT_EQ(rank->compute().memory().bytes().size(), memory.total_bytes());
  }
}

void expect_boundary_traffic(actors::Pipeline& pipeline, std::int64_t steps, std::int64_t boundary) {
  int ends = 0;
  for (auto* rank : pipeline.ranks()) {
    const auto messages = steps * rank->plan().schedule.microbatches;
    for (const auto& channel : rank->plan().channels()) {
      const bool sends = channel.from_rank == rank->id().value, receives = channel.to_rank == rank->id().value;
      if (!sends && !receives) continue;
      const auto counters = rank->link(channel.id).counters();
      if (sends) {
        EXPECT_EQ(counters.messages_sent, messages) << "channel " << channel.id;
        EXPECT_EQ(counters.bytes_sent, messages * boundary) << "channel " << channel.id;
      }
      if (receives) {
        EXPECT_EQ(counters.messages_received, messages) << "channel " << channel.id;
        EXPECT_EQ(counters.bytes_received, messages * boundary) << "channel " << channel.id;
      }
      ++ends;
    }
  }
  EXPECT_GE(ends, 2);  // the ends of a pipeline have one neighbour, two channels
}

}  // namespace millrace::tests
