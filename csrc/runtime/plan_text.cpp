#include <algorithm>
#include <map>
#include <sstream>

#include "runtime/plan.h"
#include "support/reader.h"

// The text form of a plan (runtime/plan.h shows one).

namespace tilewright {

namespace {

// Words for how a kernel takes an input that is no tensor on its device.
struct InputWord {
  LaunchInput::Kind kind;
  const char* word;
};
constexpr InputWord kInputWords[] = {
    {LaunchInput::Kind::kInt, "int"},
    {LaunchInput::Kind::kFloat, "float"},
    {LaunchInput::Kind::kHostTensor, "host"},
};

class PlanPrinter {
 public:
  explicit PlanPrinter(const Plan& plan) : plan_(plan) {}

  std::string text() {
    out_ << "plan @" << plan_.name << "(";
    for (size_t i = 0; i < plan_.parameters.size(); ++i) {
      out_ << (i ? ", " : "") << "$" << i << ": " << plan_.parameters[i];
    }
    out_ << ")\n";
    if (!plan_.symbols.empty()) print_bindings();
    out_ << "{\n";
    for (const Step& step : plan_.steps) {
      out_ << "  ";
      std::visit([&](const auto& s) { print_step(s); }, step);
      out_ << "\n";
    }
    out_ << "  return";
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      out_ << (i ? ", " : " ");
      print_arg(plan_.outputs[i]);
    }
    out_ << "\n}\n";
    for (size_t i = 0; i < locs_.size(); ++i) {
      const Loc& loc = *locs_[i];
      out_ << "loc " << i << " = " << quoted(loc.file) << ":" << loc.line << " " << quoted(loc.code) << " "
           << (is_word(loc.op) ? loc.op : quoted(loc.op)) << "\n";
    }
    return out_.str();
  }

 private:
  void print_bindings() {
    out_ << "  symbols (";
    for (size_t i = 0; i < plan_.symbols.size(); ++i) {
      const SymbolBinding& binding = plan_.symbols[i];
      out_ << (i ? ", " : "") << binding.value << " = ";
      if (binding.source == SymbolBinding::Source::kInt) {
        out_ << "$" << binding.slot;
      } else {
        out_ << (binding.source == SymbolBinding::Source::kSize ? "size" : "stride") << "($" << binding.slot << ", "
             << binding.dim << ")";
      }
    }
    out_ << ")\n";
  }

  void print_arg(const PlanArg& arg) {
    std::visit([&](const auto& data) { print_data(data); }, arg.data);
  }
  void print_data(Arg::None) { out_ << "none"; }
  void print_data(PlanArg::SlotRef ref) { out_ << "$" << ref.slot; }
  void print_data(const Expr& e) { out_ << e; }
  void print_data(double value) { out_ << float_text(value); }
  void print_data(bool value) { out_ << (value ? "true" : "false"); }
  void print_data(const std::string& text) { out_ << quoted(text); }
  void print_data(const Arg::Tagged& tagged) {
    const bool is_quoted = tagged.tag == "device" || !is_word(tagged.text);
    out_ << tagged.tag << "(" << (is_quoted ? quoted(tagged.text) : tagged.text) << ")";
  }
  void print_data(Arg::Complex c) { out_ << "complex(" << float_text(c.re) << ", " << float_text(c.im) << ")"; }
  void print_data(const PlanArg::List& list) {
    out_ << "[";
    print_args(list);
    out_ << "]";
  }
  void print_args(const std::vector<PlanArg>& args) {
    for (size_t i = 0; i < args.size(); ++i) {
      if (i) out_ << ", ";
      print_arg(args[i]);
    }
  }

  void print_slots(const std::vector<Slot>& slots) {
    for (size_t i = 0; i < slots.size(); ++i) {
      out_ << (i ? ", " : "");
      if (slots[i] == kNoSlot) {
        out_ << "_";
      } else {
        out_ << "$" << slots[i];
      }
    }
  }
  void print_results(const std::vector<Slot>& slots) {
    if (slots.empty()) return;
    print_slots(slots);
    out_ << " = ";
  }
  void print_types(const std::vector<Type>& types) {
    for (size_t i = 0; i < types.size(); ++i) out_ << (i ? ", " : " : ") << types[i];
  }
  int number_of(const LocPtr& loc) {
    const auto same = [&](const LocPtr& known) { return known == loc || *known == *loc; };
    const auto it = std::find_if(locs_.begin(), locs_.end(), same);
    if (it != locs_.end()) return static_cast<int>(it - locs_.begin());
    locs_.push_back(loc);
    return static_cast<int>(locs_.size()) - 1;
  }
  void print_loc(const LocPtr& loc) {
    if (loc) out_ << " @ " << number_of(loc);
  }

  void print_step(const Launch& launch) {
    std::vector<Slot> results;
    results.reserve(launch.outputs.size());
    for (const LaunchOutput& output : launch.outputs) results.push_back(output.slot);
    print_results(results);
    out_ << "launch " << quoted(launch.name) << "(";
    for (size_t i = 0; i < launch.inputs.size(); ++i) {
      const LaunchInput& input = launch.inputs[i];
      out_ << (i ? ", " : "");
      const char* word = nullptr;
      for (const InputWord& row : kInputWords) {
        if (row.kind == input.kind) word = row.word;
      }
      if (word) out_ << word << " ";
      out_ << "$" << input.slot;
    }
    out_ << ")";
    if (!launch.symbols.empty()) {
      out_ << " symbols (";
      for (size_t i = 0; i < launch.symbols.size(); ++i) {
        out_ << (i ? ", " : "") << launch.symbols[i].first << " = " << launch.symbols[i].second;
      }
      out_ << ")";
    }
    for (const Variant& variant : launch.variants) print_variant(variant);
    if (!launch.lines.empty()) {
      out_ << "\n    lines (";
      for (size_t i = 0; i < launch.lines.size(); ++i) {
        out_ << (i ? ", " : "") << launch.lines[i].first;
        print_loc(launch.lines[i].second);
      }
      out_ << ")";
    }
    for (size_t i = 0; i < launch.outputs.size(); ++i) {
      const LaunchOutput& output = launch.outputs[i];
      out_ << (i ? ", " : "\n    : ") << output.type;
      if (output.into != kNoSlot) out_ << " into $" << output.into;
    }
  }

  void print_variant(const Variant& variant) {
    out_ << "\n    variant " << quoted(variant.key);
    const Condition& c = variant.condition;
    if (c == Condition{}) return;
    out_ << " if";
    if (c.pointer_alignment != 1) out_ << " align " << c.pointer_alignment;
    if (c.index_32bit) out_ << " index32";
    for (const auto& [e, by] : c.divisible) out_ << " divisible (" << e << ", " << by << ")";
    for (const auto& [e, bound] : c.at_most) out_ << " at_most (" << e << ", " << bound << ")";
  }

  void print_step(const Call& call) {
    print_results(call.results);
    out_ << "call " << call.op << "(";
    print_args(call.args);
    for (size_t i = 0; i < call.kwargs.size(); ++i) {
      out_ << (i || !call.args.empty() ? ", " : "") << call.kwargs[i].first << "=";
      print_arg(call.kwargs[i].second);
    }
    out_ << ")";
    print_types(call.types);
    print_loc(call.loc);
  }

  void print_step(const Host& host) {
    print_results(host.results);
    out_ << "host " << host.number << "(";
    print_args(host.args);
    out_ << ")";
    print_types(host.types);
    print_loc(host.loc);
  }

  void print_step(const View& view) { out_ << "$" << view.result << " = view $" << view.base << " : " << view.type; }
  void print_step(const Copy& copy) { out_ << "copy $" << copy.from << " -> $" << copy.into; }
  void print_step(const Free& free) {
    out_ << "free ";
    print_slots(free.slots);
  }

  const Plan& plan_;
  std::ostringstream out_;
  std::vector<LocPtr> locs_;
};

class PlanParser {
 public:
  PlanParser(std::string_view text, std::string_view file) : in_(text, file) {}

  Plan parse() {
    in_.expect("plan");
    in_.expect("@");
    plan_.name = in_.word("the plan's name");
    in_.expect("(");
    while (!in_.take(")")) {
      if (!plan_.parameters.empty()) in_.expect(",");
      const Token at = in_.peek();
      if (parse_slot() != static_cast<Slot>(plan_.parameters.size()))
        in_.fail_at(at, "parameters are $0, $1, ... in order");
      in_.expect(":");
      plan_.parameters.push_back(read_type(in_));
    }
    if (in_.take("symbols")) parse_bindings();
    in_.expect("{");
    while (!in_.take("return")) parse_step();
    while (!in_.is("}")) {
      if (!plan_.outputs.empty()) in_.expect(",");
      plan_.outputs.push_back(parse_arg());
    }
    in_.expect("}");
    while (!in_.at_end()) parse_loc();
    resolve_locs();
    return std::move(plan_);
  }

 private:
  Slot parse_slot() {
    in_.expect("$");
    return static_cast<Slot>(in_.integer("a slot's number"));
  }

  Slot parse_slot_or_none() { return in_.take("_") ? kNoSlot : parse_slot(); }

  void parse_bindings() {
    in_.expect("(");
    do {
      SymbolBinding binding;
      const Token at = in_.peek();
      binding.value = read_expr(in_);
      const std::vector<std::string> symbols = binding.value.symbols();
      if (symbols.size() != 1) in_.fail_at(at, "expected an expression of one symbol");
      binding.symbol = symbols[0];
      in_.expect("=");
      if (in_.is("size") || in_.is("stride")) {
        const bool is_size = in_.next().text == "size";
        binding.source = is_size ? SymbolBinding::Source::kSize : SymbolBinding::Source::kStride;
        in_.expect("(");
        binding.slot = parse_slot();
        in_.expect(",");
        binding.dim = static_cast<int>(in_.integer("a dimension"));
        in_.expect(")");
      } else {
        binding.slot = parse_slot();
      }
      plan_.symbols.push_back(std::move(binding));
    } while (in_.take(","));
    in_.expect(")");
  }

  PlanArg parse_arg() {
    if (in_.is("$")) return {PlanArg::SlotRef{parse_slot()}};
    if (in_.take("none")) return {Arg::None{}};
    if (in_.take("true")) return {true};
    if (in_.take("false")) return {false};
    if (in_.peek().kind == TokenKind::kString) return {in_.string("a string")};
    if (in_.at_float()) return {in_.number("a number")};
    if (in_.take("[")) {
      PlanArg::List list;
      while (!in_.take("]")) {
        if (!list.empty()) in_.expect(",");
        list.push_back(parse_arg());
      }
      return {std::move(list)};
    }
    static const char* const kTags[] = {"dtype", "device", "layout", "memory_format", "generator"};
    for (const char* tag : kTags) {
      if (!in_.is(tag) || in_.peek_second().text != "(") continue;
      in_.next();
      in_.expect("(");
      const bool is_string = in_.peek().kind == TokenKind::kString;
      std::string text = is_string ? in_.string("a name") : std::string(in_.word("a name"));
      in_.expect(")");
      return {Arg::Tagged{tag, std::move(text)}};
    }
    if (in_.is("complex") && in_.peek_second().text == "(") {
      in_.next();
      in_.expect("(");
      const double re = in_.number("the real part");
      in_.expect(",");
      const double im = in_.number("the imaginary part");
      in_.expect(")");
      return {Arg::Complex{re, im}};
    }
    return {read_expr(in_)};
  }

  std::vector<PlanArg> parse_args(std::vector<std::pair<std::string, PlanArg>>* kwargs) {
    std::vector<PlanArg> args;
    in_.expect("(");
    bool is_first = true;
    while (!in_.take(")")) {
      if (!is_first) in_.expect(",");
      is_first = false;
      if (kwargs && in_.peek().kind == TokenKind::kWord && in_.peek_second().text == "=") {
        std::string name(in_.word("a name"));
        in_.expect("=");
        kwargs->emplace_back(std::move(name), parse_arg());
      } else {
        args.push_back(parse_arg());
      }
    }
    return args;
  }

  std::vector<Type> parse_types() {
    std::vector<Type> types;
    if (!in_.take(":")) return types;
    do types.push_back(read_type(in_));
    while (in_.take(","));
    return types;
  }

  // A loc's text stands at the end: until then its number stands in for it.
  LocPtr parse_loc_number() {
    if (!in_.take("@")) return nullptr;
    auto stand_in = std::make_shared<Loc>();
    stand_in->line = static_cast<int>(in_.integer("a location's number"));
    return stand_in;
  }

  void parse_step() {
    if (in_.take("free")) {
      Free free;
      do free.slots.push_back(parse_slot());
      while (in_.take(","));
      plan_.steps.emplace_back(std::move(free));
      return;
    }
    if (in_.take("copy")) {
      Copy copy;
      copy.from = parse_slot();
      in_.expect("->");
      copy.into = parse_slot();
      plan_.steps.emplace_back(copy);
      return;
    }
    std::vector<Slot> results;
    if (in_.is("$") || in_.is("_")) {
      do results.push_back(parse_slot_or_none());
      while (in_.take(","));
      in_.expect("=");
    }
    if (in_.take("launch")) return parse_launch(results);
    if (in_.take("call")) return parse_call(std::move(results));
    if (in_.take("host")) return parse_host(std::move(results));
    if (in_.take("view") && results.size() == 1) {
      View view;
      view.result = results[0];
      view.base = parse_slot();
      in_.expect(":");
      view.type = read_type(in_);
      plan_.steps.emplace_back(std::move(view));
      return;
    }
    in_.fail_expected("a step: launch, call, host, view, copy, free or return");
  }

  void parse_call(std::vector<Slot> results) {
    Call call;
    call.op = in_.word("an operator");
    call.args = parse_args(&call.kwargs);
    call.results = std::move(results);
    call.types = parse_types();
    call.loc = parse_loc_number();
    plan_.steps.emplace_back(std::move(call));
  }

  void parse_host(std::vector<Slot> results) {
    Host host;
    host.number = static_cast<int>(in_.integer("a host step's number"));
    host.args = parse_args(nullptr);
    host.results = std::move(results);
    host.types = parse_types();
    host.loc = parse_loc_number();
    plan_.steps.emplace_back(std::move(host));
  }

  void parse_launch(const std::vector<Slot>& results) {
    Launch launch;
    launch.name = in_.string("the kernel's display name");
    in_.expect("(");
    while (!in_.take(")")) {
      if (!launch.inputs.empty()) in_.expect(",");
      LaunchInput input;
      for (const InputWord& row : kInputWords) {
        if (in_.take(row.word)) input.kind = row.kind;
      }
      input.slot = parse_slot();
      launch.inputs.push_back(input);
    }
    if (in_.take("symbols")) {
      in_.expect("(");
      do {
        std::string name(in_.word("a symbol"));
        in_.expect("=");
        launch.symbols.emplace_back(std::move(name), read_expr(in_));
      } while (in_.take(","));
      in_.expect(")");
    }
    while (in_.take("variant")) launch.variants.push_back(parse_variant());
    if (in_.take("lines")) {
      in_.expect("(");
      do {
        const int line = static_cast<int>(in_.integer("a line of the kernel"));
        launch.lines.emplace_back(line, parse_loc_number());
      } while (in_.take(","));
      in_.expect(")");
    }
    parse_launch_outputs(results, launch);
    plan_.steps.emplace_back(std::move(launch));
  }

  void parse_launch_outputs(const std::vector<Slot>& results, Launch& launch) {
    const Token at = in_.peek();
    if (in_.take(":")) {
      do {
        LaunchOutput output;
        output.type = read_type(in_);
        if (in_.take("into")) output.into = parse_slot();
        launch.outputs.push_back(std::move(output));
      } while (in_.take(","));
    }
    if (launch.outputs.size() != results.size()) {
      in_.fail_at(at, "found " + std::to_string(launch.outputs.size()) + " types for " +
                          std::to_string(results.size()) + " results");
    }
    for (size_t i = 0; i < results.size(); ++i) launch.outputs[i].slot = results[i];
  }

  Variant parse_variant() {
    Variant variant;
    variant.key = in_.string("an artifact's key");
    if (!in_.take("if")) return variant;
    Condition& c = variant.condition;
    while (true) {
      if (in_.take("align")) {
        c.pointer_alignment = in_.integer("an alignment in bytes");
      } else if (in_.take("index32")) {
        c.index_32bit = true;
      } else if (in_.take("divisible")) {
        c.divisible.push_back(parse_bound());
      } else if (in_.take("at_most")) {
        c.at_most.push_back(parse_bound());
      } else {
        return variant;
      }
    }
  }

  std::pair<Expr, int64_t> parse_bound() {
    in_.expect("(");
    Expr e = read_expr(in_);
    in_.expect(",");
    const int64_t bound = in_.integer("a number");
    in_.expect(")");
    return {std::move(e), bound};
  }

  void parse_loc() {
    in_.expect("loc");
    const auto number = static_cast<int>(in_.integer("a location's number"));
    in_.expect("=");
    auto loc = std::make_shared<Loc>();
    loc->file = in_.string("a file name");
    in_.expect(":");
    loc->line = static_cast<int>(in_.integer("a line"));
    loc->code = in_.string("the line's text");
    loc->op = in_.peek().kind == TokenKind::kString ? in_.string("an operator") : std::string(in_.word("an operator"));
    locs_[number] = std::move(loc);
  }

  void resolve_locs() {
    const auto resolve = [&](LocPtr& loc) {
      if (!loc) return;
      const auto it = locs_.find(loc->line);
      if (it == locs_.end()) in_.fail("location " + std::to_string(loc->line) + " is not given");
      loc = it->second;
    };
    for (Step& step : plan_.steps) {
      if (auto* launch = std::get_if<Launch>(&step)) {
        for (auto& [line, loc] : launch->lines) resolve(loc);
      } else if (auto* call = std::get_if<Call>(&step)) {
        resolve(call->loc);
      } else if (auto* host = std::get_if<Host>(&step)) {
        resolve(host->loc);
      }
    }
  }

  Reader in_;
  Plan plan_;
  std::map<int, LocPtr> locs_;
};

}  // namespace

std::string print(const Plan& plan) { return PlanPrinter(plan).text(); }

Plan parse_plan(std::string_view text, std::string_view file) { return PlanParser(text, file).parse(); }

}  // namespace tilewright
