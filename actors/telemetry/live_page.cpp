#include "actors/telemetry/live_page.hpp"

#include "runtime/profile/report/embedded_text.hpp"

namespace millrace::actors {

std::string live_page() {
  return runtime::page_of(embedded_texts().front().text, [](std::string_view name) { return std::string(runtime::embedded_text(name)); });
}

}  // namespace millrace::actors
