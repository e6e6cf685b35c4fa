#include "actors/rank/recorded_parts.hpp"

#include <algorithm>

#include "runtime/program/expert_slices.hpp"

namespace millrace::actors {
namespace {

std::vector<RecordedPart> by_expert(std::int64_t first, std::int64_t count, std::int32_t microbatch, std::size_t bytes) {
  std::vector<RecordedPart> parts;
  const std::size_t each = bytes / static_cast<std::size_t>(count);
  for (std::int64_t part = 0; part < count; ++part)
    parts.push_back({first + part, microbatch, static_cast<std::size_t>(part) * each, each});
  return parts;
}

/// How many sources the table's rows are of.
std::int64_t sources_of(const runtime::Value& table) {
  return table.expert_rows.present() ? (table.type.shape[0] - 1) / table.expert_rows.experts : 1;
}

}  // namespace

void RecordedParts::note(const runtime::OperationHook::Call& call, const runtime::Action& action) {
  for (std::size_t output = 0; output < call.outputs.size(); ++output) {
    const runtime::ValueId id = call.operation.outputs[output];
    if (!call.programs.value(id).expert_rows.present()) continue;
    const auto* const offsets = call.outputs[output].as<std::int32_t>();
    tables_[{action.stage.value, action.microbatch.value, id.index}].assign(offsets, offsets + call.outputs[output].elements());
  }
}

const std::vector<std::int32_t>* RecordedParts::table_of(runtime::ValueId table, const runtime::Action& action) const {
  const auto found = tables_.find({action.stage.value, action.microbatch.value, table.index});
  return found == tables_.end() ? nullptr : &found->second;
}

std::int32_t RecordedParts::microbatch_of(const runtime::Action& action, std::int64_t source) const {
  return action.microbatch.value + (static_cast<std::int32_t>(source) - sources_.member) * sources_.stride;
}

std::vector<RecordedPart> RecordedParts::parts_of(const runtime::OperationHook::Call& call, std::size_t output,
                                                  const runtime::Action& action) const {
  const runtime::Value& value = call.programs.value(call.operation.outputs[output]);
  const kernels::Tensor& tensor = call.outputs[output];
  if (value.experts.present()) {
    // A sum over microbatches. One rank reaches it with the last of the sources.
    const runtime::ValueId table = call.programs.value(call.operation.inputs.at(0)).rows_by;
    const std::int64_t sources = table.valid() ? sources_of(call.programs.value(table)) : 1;
    const std::int32_t microbatch = sources > 1 ? microbatch_of(action, sources - 1) : action.microbatch.value;
    return by_expert(value.experts.first, tensor.shape[0], microbatch, tensor.bytes());
  }
  const auto* const table = value.rows_by.valid() ? table_of(value.rows_by, action) : nullptr;
  if (table == nullptr) return {{-1, action.microbatch.value, 0, tensor.bytes()}};
  const runtime::Value& offsets = call.programs.value(value.rows_by);
  const std::size_t row = tensor.shape[0] == 0 ? 0 : tensor.bytes() / static_cast<std::size_t>(tensor.shape[0]);
  const bool several = sources_of(offsets) > 1;
  std::vector<RecordedPart> parts;
  for (const runtime::ExpertRowRange& range : runtime::expert_row_ranges(offsets.expert_rows, *table, tensor.shape[0]))
    parts.push_back({range.expert, several ? microbatch_of(action, range.source) : action.microbatch.value,
                     static_cast<std::size_t>(range.first) * row, static_cast<std::size_t>(range.rows) * row});
  return parts;
}

std::vector<RecordedPart> parts_of(const runtime::StoredParameter& tensor) {
  if (!tensor.experts.present()) return {{-1, -1, 0, tensor.bytes()}};
  return by_expert(tensor.experts.first, tensor.parts(), -1, tensor.bytes());
}

}  // namespace millrace::actors
