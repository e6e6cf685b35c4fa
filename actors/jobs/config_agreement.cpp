#include "actors/jobs/config_agreement.hpp"

#include <algorithm>
#include <map>
#include <string_view>

#include "kernels/base/check.hpp"
#include "runtime/io/hash.hpp"

namespace millrace::actors {

void agree_on_config(Session& session, const std::string& text) {
  const std::string verdict = session.control().compare({{"config", runtime::hash_of(text).hex()}});
  if (verdict.empty()) return;
  constexpr std::string_view equals = " = ";
  std::map<std::string, std::string> values;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    const auto line = std::string_view(text).substr(begin, end - begin);
    if (const auto at = line.find(equals); at != std::string_view::npos)
      values.emplace(line.substr(0, at), line.substr(at + equals.size()));
    begin = end + 1;
  }
  session.control().agree(values);
  throw Error(ExitCode::start, verdict);
}

}  // namespace millrace::actors
