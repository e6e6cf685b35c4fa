#include "runtime/schedule/lower.hpp"

#include "runtime/schedule/cell.hpp"
#include "runtime/schedule/full_table.hpp"

namespace millrace::runtime {

std::vector<std::vector<std::string>> lower(const Schedule& schedule) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& cells : full_table(schedule)) {
    auto& row = rows.emplace_back();
    for (std::size_t index = 0; index < cells.size(); ++index) {
      const bool pair = cells[index].kind == TransferCell::Kind::compute && cells[index].action.overlaps_next;
      row.push_back(pair ? print_row({cells[index].action, cells[index + 1].action}) : to_string(cells[index]));
      index += pair;
    }
  }
  return rows;
}

}  // namespace millrace::runtime
