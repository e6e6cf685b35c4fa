// A .bin, alone or with an .idx: the first byte of the input says where the .bin ends and the .idx begins.

#include <stdlib.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/check.hpp"
#include "runtime/data/token_file.hpp"

namespace {

std::string make_folder() {
  std::string name = (std::filesystem::temp_directory_path() / "millrace_fuzz_XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) std::abort();
  return name;
}

void write(const std::string& path, std::string_view bytes) { std::ofstream(path, std::ios::binary) << bytes; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string folder = make_folder();
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t cut = std::min<std::size_t>(data[0], bytes.size());
  write(folder + "/a.bin", data[0] == 255 ? bytes : bytes.substr(0, cut));
  std::filesystem::remove(folder + "/a.idx");
  if (data[0] != 255) write(folder + "/a.idx", bytes.substr(cut));
  try {
    const millrace::runtime::TokenFile file(folder + "/a.bin", 300);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(std::min<std::int64_t>(file.size(), 1000)));
    file.read(0, ids);
    for (std::int64_t at = 0; at < file.size(); ++at) {
      const std::int64_t end = file.find_sequence_end(at, file.size());
      if (end < at || end > file.size()) std::abort();
    }
  } catch (const millrace::Error& error) {
    if (error.code() != millrace::ExitCode::data) std::abort();
  }
  return 0;
}
