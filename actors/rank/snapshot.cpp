#include "actors/rank/snapshot.hpp"

#include <span>
#include <string>

namespace millrace::actors {
namespace {

runtime::FileDType state_file_dtype(kernels::DType dtype) {
  return dtype == kernels::DType::bf16 ? runtime::FileDType::bf16 : runtime::FileDType::f32;
}

}  // namespace

void add_snapshot(const runtime::StageShard& shard, std::vector<runtime::CheckpointTensor>& tensors) {
  for (const auto& tensor : shard.tensors()) {
    if (!tensor.is_owner()) continue;
    const auto add = [&](const std::string& name, runtime::FileDType dtype, std::span<const std::byte> bytes) {
      tensors.push_back({name, dtype, tensor.shape.sizes(), bytes, {}, tensor.experts.first, tensor.experts.whole});
    };
    add(tensor.name, runtime::FileDType::f32, shard.snapshot_master(tensor));
    for (std::size_t i = 0; i < shard.states().size(); ++i)
      if (tensor.has_state(i))
        add(shard.states()[i].tensor_name(tensor.name), state_file_dtype(shard.states()[i].dtype), shard.snapshot_state(tensor, i));
  }
}

}  // namespace millrace::actors
