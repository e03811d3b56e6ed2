// Planted faults. faults/*.txt hold small kernels with one fault each, and their faultless twins: a line that begins
// with '-' is in the faulty kernel alone, one with '+' in the twin alone. "expect" says what is to be reported: the
// check, the thread (and block), and a part of the sentence; "// here" marks the line; "also", what else it may be
// found as when warps run in random order. Settings that differ for the twin are in a line "+ .settings".
#include <algorithm>
#include <filesystem>
#include <map>

#include "run.h"

namespace tilewright::sim {
namespace {

struct Case {
  std::string name, check, part;
  std::string also;            // what the fault may be found as when warps run in another order
  int block = 0, thread = -1;  // -1: the launch is refused
  std::map<std::string, std::string> settings, twin_settings;
  std::string fault, twin;  // bodies
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::map<std::string, std::string> parse_settings(const std::string& text) {
  std::map<std::string, std::string> out;
  std::istringstream in(text);
  for (std::string word; in >> word;) out[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  return out;
}

// "check, block 1, thread 3: part"
void parse_expectation(Case& c, const std::string& text) {
  const size_t colon = text.find(": ");
  c.part = text.substr(colon + 2);
  std::istringstream in(text.substr(0, colon));
  std::getline(in, c.check, ',');
  for (std::string word; in >> word;) {
    if (word == "thread") in >> c.thread;
    if (word == "block") in >> c.block;
  }
}

std::vector<Case> read_cases() {
  std::vector<Case> cases;
  std::vector<std::filesystem::path> files;
  const std::string folder = std::string(TILEWRIGHT_SOURCE_DIR) + "/test/core/simulator/faults";
  for (const auto& f : std::filesystem::directory_iterator(folder)) files.push_back(f.path());
  std::sort(files.begin(), files.end());
  for (const auto& path : files) {
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) {
      if (line.rfind("== ", 0) == 0) {
        cases.emplace_back().name = line.substr(3);
      } else if (line.rfind("launch ", 0) == 0) {
        cases.back().settings = cases.back().twin_settings = parse_settings(line.substr(7));
      } else if (line.rfind("expect ", 0) == 0) {
        parse_expectation(cases.back(), line.substr(7));
      } else if (line.rfind("also ", 0) == 0) {
        cases.back().also = line.substr(5);
      } else if (line.rfind("+ .settings ", 0) == 0) {
        for (const auto& [key, value] : parse_settings(line.substr(12))) cases.back().twin_settings[key] = value;
      } else if (!line.empty()) {
        const std::string statement = (line[0] == '+' || line[0] == '-' ? " " + line.substr(1) : line) + "\n";
        if (line[0] != '+') cases.back().fault += statement;
        if (line[0] != '-') cases.back().twin += statement;
      }
    }
  }
  return cases;
}

// %t: thread, %a: its word of s, %b: that of lane ^ 1, %far: that of the thread 32 further in a block of 64; %xt and
// %yt: its elements of the arrays x (not writable) and y.
std::string module_of(const std::string& body, const std::map<std::string, std::string>& settings) {
  const auto target = settings.find("target");
  const bool clusters = target == settings.end();
  const auto maxntid = settings.find("maxntid");
  return module_header(clusters ? "sm_90a" : target->second) + R"(
.extern .shared .align 16 .b8 dynamic[];
.visible .entry k(.param .u64 in, .param .u64 out))" +
         (maxntid == settings.end() ? "" : "\n.maxntid " + maxntid->second + ", 1, 1") + R"(
{
  .shared .align 128 .b8 s[8192];
  .shared .align 8 .b64 bar0, bar1;
  .local .align 4 .b8 stack[64];
  .reg .b64 %x, %y, %xt, %yt, %s64, %d<8>;
  .reg .b32 %t, %lane, %block, %rank, %a, %b, %far, %r<10>;
  .reg .b16 %h;
  .reg .f32 %f<8>;
  .reg .pred %p, %q, %lead;
  ld.param.u64 %x, [in];
  ld.param.u64 %y, [out];
  mov.u32 %t, %tid.x;
  mov.u32 %lane, %laneid;
  mov.u32 %block, %ctaid.x;
  mov.u32 %rank, )" +
         (clusters ? "%cluster_ctarank" : "0") + R"(;
  cvt.u16.u32 %h, %t;
  mov.f32 %f4, 0f3F800000;
  mov.u64 %s64, s;
  mov.u32 %a, s;
  xor.b32 %b, %t, 1;
  mad.lo.u32 %b, %b, 4, %a;
  xor.b32 %far, %t, 32;
  mad.lo.u32 %far, %far, 4, %a;
  mad.lo.u32 %a, %t, 4, %a;
  mul.wide.u32 %xt, %t, 4;
  mad.lo.u32 %r9, %block, %ntid.x, %t;
  mul.wide.u32 %yt, %r9, 4;
  add.s64 %xt, %xt, %x;
  add.s64 %yt, %yt, %y;
  setp.eq.u32 %lead, %t, 0;
)" + body +
         "  ret;\n}\n";
}

struct Mode {
  Completion completion = Completion::kEager;
  WarpOrder order = WarpOrder::kInTurn;
  uint64_t seed = 0;
};

// Runs a body with all checks; throws what it is found to do wrong.
void run(const std::string& body, const std::map<std::string, std::string>& settings, const Mode& mode) {
  const auto number = [&](const char* key, uint32_t otherwise) {
    const auto it = settings.find(key);
    return it == settings.end() ? otherwise : static_cast<uint32_t>(std::stoul(it->second));
  };
  LaunchConfig config = config_1d(number("grid", 1), number("block", 1));
  config.cluster = {number("cluster", 1), 1, 1};
  config.dynamic_smem_bytes = number("smem", 0);
  config.registers = number("registers", 0);
  config.threads = 1;
  config.step_budget = 100'000;
  config.check_races = config.check_uninitialized = config.check_registers = true;
  config.completion = mode.completion;
  config.order = mode.order;
  config.seed = mode.seed;
  alignas(128) static uint32_t x[1024], y[1024];
  std::fill(std::begin(x), std::end(x), 1u);
  std::fill(std::begin(y), std::end(y), 0u);
  const uint64_t bytes = 4 * number("size", 1024);
  const std::vector<Allocation> memory{
      {reinterpret_cast<uint64_t>(x), bytes, "x", /*writable=*/false, /*initialized=*/true},
      {reinterpret_cast<uint64_t>(y), bytes, "y", /*writable=*/true, number("uninitialized", 0) == 0}};
  const std::vector<std::vector<std::byte>> args{arg(reinterpret_cast<uint64_t>(x)),
                                                 arg(reinterpret_cast<uint64_t>(y))};
  launch(*parse(module_of(body, settings)), "k", config, args, memory);
}

std::vector<Mode> other_modes() {
  std::vector<Mode> out{{Completion::kLazy, WarpOrder::kInTurn, 0}};
  for (uint64_t seed = 1; seed <= 3; ++seed) out.push_back({Completion::kRandom, WarpOrder::kRandom, seed});
  return out;
}

int line_of(const std::string& text, const std::string& mark) {
  const size_t at = text.find(mark);
  return at == std::string::npos
             ? 0
             : 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

class PlantedFault : public testing::TestWithParam<Case> {};

TEST_P(PlantedFault, IsFoundAndNamed) {
  const Case& c = GetParam();
  if (c.thread < 0) {
    const std::string text = thrown<UserError>([&] { run(c.fault, c.settings, Mode()); });
    EXPECT_NE(text.find(c.part), std::string::npos) << text;
    return;
  }
  try {
    run(c.fault, c.settings, Mode());
    FAIL() << "nothing was reported";
  } catch (const KernelFault& e) {
    const FaultReport& r = e.report;
    EXPECT_EQ(check_name(r.check), c.check) << e.what();
    EXPECT_NE(std::string(e.what()).find(c.part), std::string::npos) << e.what();
    EXPECT_EQ(r.thread[0], static_cast<uint32_t>(c.thread)) << e.what();
    EXPECT_EQ(r.block[0], static_cast<uint32_t>(c.block)) << e.what();
    const int line = line_of(module_of(c.fault, c.settings), "// here");
    if (line) {
      EXPECT_EQ(r.ptx_line, line) << e.what();
    }
    EXPECT_EQ(r.kernel, "k");
  }
}

TEST_P(PlantedFault, IsFoundInAnyOrder) {
  const Case& c = GetParam();
  if (c.thread < 0) return;
  for (const Mode& m : other_modes()) {
    try {
      run(c.fault, c.settings, m);
      ADD_FAILURE() << "nothing was reported, seed " << m.seed;
    } catch (const KernelFault& e) {
      const std::string found = check_name(e.report.check);
      EXPECT_TRUE(found == c.check || found == c.also) << "seed " << m.seed << ": " << e.what();
    }
  }
}

TEST_P(PlantedFault, TwinIsFaultless) {
  const Case& c = GetParam();
  EXPECT_NO_THROW(run(c.twin, c.twin_settings, Mode()));
  for (const Mode& m : other_modes()) EXPECT_NO_THROW(run(c.twin, c.twin_settings, m)) << "seed " << m.seed;
}

INSTANTIATE_TEST_SUITE_P(All, PlantedFault, testing::ValuesIn(read_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(Report, NamesTheOperatorBehindALine) {
  const std::string ptx =
      module_header() +
      ".file 1 \"group.tw\"\n.visible .entry k(.param .u64 out)\n{\n  .reg .b64 %o;\n  ld.param.u64 "
      "%o, [out];\n  .loc 1 7 2\n  st.global.u32 [%o], 1;\n  ret;\n}\n";
  const std::map<int, std::string> names{{7, "aten.add.Tensor"}};
  LaunchConfig config = config_1d(1, 1);
  config.names = &names;
  const std::vector<std::vector<std::byte>> args{arg(uint64_t{64})};
  try {
    launch(*parse(ptx), "k", config, args, {});
    FAIL() << "nothing was reported";
  } catch (const KernelFault& e) {
    EXPECT_EQ(e.report.op, "aten.add.Tensor");
    EXPECT_EQ(e.report.loc_line, 7);
    EXPECT_EQ(e.report.address, 64u);
    EXPECT_NE(std::string(e.what()).find("(group.tw:7, aten.add.Tensor)"), std::string::npos) << e.what();
  }
}

TEST(Planted, FaultsAreMany) { EXPECT_GE(read_cases().size(), 70u); }

}  // namespace
}  // namespace tilewright::sim
