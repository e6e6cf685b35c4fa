#include "actors/rank/snapshot.hpp"

#include <span>
#include <string>
#include <utility>

namespace millrace::actors {
namespace {

runtime::FileDType state_file_dtype(kernels::DType dtype) {
  return dtype == kernels::DType::bf16 ? runtime::FileDType::bf16 : runtime::FileDType::f32;
}

}  // namespace

void add_snapshot(const runtime::StageShard& shard, std::vector<runtime::CheckpointTensor>& tensors) {
  for (const auto& tensor : shard.tensors()) {
    const runtime::ElementRange reported = tensor.reported();
    if (reported.empty()) continue;
    // The rank may report some of the experts of a weight; of other weights, where replicas divide them, a run of elements.
    runtime::CheckpointTensor part;
    part.shape = tensor.shape.sizes();
    if (tensor.experts.present()) {
      const std::int64_t each = tensor.shape.elements() / tensor.shape[0];
      part.first = tensor.experts.first + reported.first / each;
      part.experts = tensor.experts.whole;
      part.shape.front() = reported.count / each;
    } else if (reported != tensor.whole()) {
      part.first = reported.first;
      part.whole = std::exchange(part.shape, {reported.count});
    }
    const auto add = [&](const std::string& name, runtime::FileDType dtype, std::span<const std::byte> bytes) {
      part.name = name;
      part.dtype = dtype;
      part.bytes = bytes;
      tensors.push_back(part);
    };
    add(tensor.name, runtime::FileDType::f32, shard.snapshot_master(tensor));
    for (std::size_t i = 0; i < shard.states().size(); ++i)
      if (tensor.has_state(i))
        add(shard.states()[i].tensor_name(tensor.name), state_file_dtype(shard.states()[i].dtype), shard.snapshot_state(tensor, i));
  }
}

}  // namespace millrace::actors
