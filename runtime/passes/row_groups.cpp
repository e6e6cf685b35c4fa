#include "runtime/passes/row_groups.hpp"

#include <map>

namespace millrace::runtime {
namespace {

class RowGroupFinder {
 public:
  explicit RowGroupFinder(ProgramSet& set) : set_(set) {}

  void visit(const Operation& operation) {
    switch (operation.rule->row_groups()) {
      case RowGroups::as_operand:
        return pass_on(operation);
      case RowGroups::by_table:
        return separate(operation);
      case RowGroups::of_sort: {
        Value& table = value(operation.outputs.at(1));
        if (!table.expert_rows.present()) table.expert_rows = {0, table.type.shape[0] - 1};
        tables_[operation.outputs[0].index] = operation.outputs[1];
        return;
      }
      case RowGroups::of_places:
        if (const auto table = tables_.find(operation.inputs.at(1).index); table != tables_.end())
          group(operation.outputs.at(0), table->second);
        return;
      case RowGroups::none:
        return;
    }
  }

 private:
  Value& value(ValueId id) { return set_.values.at(static_cast<std::size_t>(id.index)); }

  void group(ValueId rows, ValueId table) {
    if (!value(rows).rows_by.valid()) value(rows).rows_by = table;
  }

  static bool is_table(const Value& value) { return value.type.dtype == kernels::DType::i32 && value.type.shape.rank() == 1; }

  void separate(const Operation& operation) {
    for (const ValueId table : operation.inputs) {
      if (!is_table(value(table))) continue;
      group(operation.inputs[0], table);
      if (operation.rule->accumulates()) {
        if (operation.inputs[1] != table) group(operation.inputs[1], table);
        return;
      }
      for (const ValueId rows : operation.outputs) group(rows, table);
      return;
    }
  }

  void pass_on(const Operation& operation) {
    if (operation.rule->accumulates()) return;
    for (const ValueId input : operation.inputs) {
      const Value from = value(input);
      if (!from.rows_by.valid()) continue;
      for (const ValueId output : operation.outputs) {
        const kernels::Shape& shape = value(output).type.shape;
        if (shape.rank() >= 1 && shape.dimension(0) == from.type.shape.dimension(0)) group(output, from.rows_by);
      }
    }
  }

  ProgramSet& set_;
  std::map<std::int32_t, ValueId> tables_;  // by the value of the places
};

}  // namespace

void find_row_groups(ProgramSet& set) {
  RowGroupFinder finder(set);
  // The evaluation has all forward operations, and sorts before anything else is computed from the order.
  for (const ProgramKind kind : {ProgramKind::evaluate, ProgramKind::forward, ProgramKind::input_gradient, ProgramKind::weight_gradient})
    for (const Operation& operation : set.program(kind)) finder.visit(operation);
}

}  // namespace millrace::runtime
