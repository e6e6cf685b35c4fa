#include "tests/support/mixed_text.hpp"

#include <array>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/base/mix.hpp"
#include "runtime/data/tokenizers/utf8.hpp"
#include "tests/support/paths.hpp"

namespace millrace::tests {
namespace {

struct Section {
  std::size_t weight = 0;
  std::string joiner;
  std::vector<std::string> items;
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::size_t below(std::size_t n) { return mix(state_ += golden_ratio) % n; }

 private:
  std::uint64_t state_;
};

std::string unescape(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      plain += text[i];
      continue;
    }
    const char what = text.at(++i);
    if (what == 'u') {
      const std::size_t end = text.find('}', i);
      runtime::append_character(static_cast<std::uint32_t>(std::stoul(text.substr(i + 2, end - i - 2), nullptr, 16)), plain);
      i = end;
    } else {
      plain += what == 's' ? ' ' : what == 'n' ? '\n' : what == 'r' ? '\r' : what == 't' ? '\t' : '\\';
    }
  }
  return plain;
}

std::vector<Section> read_sections() {
  std::ifstream file(source_path("tests/golden/tokenizers/words.txt"));
  if (!file) throw std::runtime_error("tests/golden/tokenizers/words.txt is missing");
  std::vector<Section> sections;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.starts_with("# ")) continue;
    if (line.starts_with("= ")) {
      std::istringstream words(line.substr(2));
      std::string name, joiner;
      Section section;
      words >> name >> section.weight >> joiner;
      section.joiner = joiner == "-" ? "" : unescape(joiner);
      sections.push_back(std::move(section));
    } else {
      sections.back().items.push_back(unescape(line));
    }
  }
  return sections;
}

constexpr std::array<std::pair<std::uint32_t, std::uint32_t>, 22> ranges = {{
    {0xA1, 0x24F},      {0x300, 0x36F},   {0x391, 0x3A9},   {0x400, 0x45F},   {0x5D0, 0x5EA},   {0x621, 0x64A},
    {0x905, 0x939},     {0xE01, 0xE30},   {0x1100, 0x1112}, {0x1161, 0x1175}, {0x11A8, 0x11C2}, {0xAC00, 0xD7A3},
    {0x3041, 0x3096},   {0x4E00, 0x9FA5}, {0x2000, 0x206F}, {0x20A0, 0x20BD}, {0x2460, 0x249B}, {0x1F600, 0x1F64F},
    {0x1D400, 0x1D454}, {0x660, 0x669},   {0x2150, 0x2182}, {0x1E00, 0x1EFF},
}};

void add_at_random(Random& random, std::size_t kind, std::string& text) {
  static const std::array<std::string, 8> runs = {" ", "\n", "7", "a", "-", "\t", "\u4e00", "\r\n"};
  if (kind < 2) {
    const std::string& one = runs[random.below(runs.size())];
    const std::size_t count = 1 + random.below(80);
    for (std::size_t i = 0; i < count; ++i) text += one;
  } else if (kind < 4) {
    const std::size_t count = 1 + random.below(12);
    for (std::size_t i = 0; i < count; ++i) {
      const auto& [first, last] = ranges[random.below(ranges.size())];
      runtime::append_character(first + static_cast<std::uint32_t>(random.below(last - first + 1)), text);
    }
  } else {
    const std::size_t count = 1 + random.below(6);
    for (std::size_t i = 0; i < count; ++i) text += static_cast<char>(static_cast<unsigned char>(0x80 + random.below(0x80)));
  }
}

}  // namespace

std::string mixed_text(std::size_t size, std::uint64_t seed, bool invalid) {
  const std::vector<Section> sections = read_sections();
  std::vector<std::size_t> kinds;
  for (std::size_t i = 0; i < sections.size(); ++i) kinds.insert(kinds.end(), sections[i].weight, i);
  Random random(seed);
  std::string text;
  while (text.size() < size) {
    const std::size_t kind = random.below(kinds.size() + (invalid ? 5 : 4));
    if (kind < kinds.size()) {
      const Section& section = sections[kinds[kind]];
      const std::size_t count = 1 + random.below(24);
      for (std::size_t i = 0; i < count; ++i) text += section.items[random.below(section.items.size())] + section.joiner;
    } else {
      add_at_random(random, kind - kinds.size(), text);
    }
    text += random.below(4) == 0 ? '\n' : ' ';
  }
  return text;
}

}  // namespace millrace::tests
