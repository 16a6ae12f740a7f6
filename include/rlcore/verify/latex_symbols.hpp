// Names of LaTeX commands: the characters they stand for and the arguments they take, as pylatexenc 2.11 knows them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rlcore/verify/python_text.hpp"

RLCORE_BEGIN
namespace verify::detail {

/// Commands with arguments, `{` for one that it needs, `[` for an optional one, `*` for an optional star. The text has
/// %s for each argument in turn, or %(2)s for the second; "*" stands for the texts of all arguments.
struct latex_command {
  std::string_view arguments, text;
};

/// Names of commands, separated by spaces, that are alike.
struct latex_commands {
  std::string_view arguments, text, names;
};

inline constexpr std::array<latex_commands, 22> latex_command_table{
    {{"*[", "\n", "\\"},
     {"*{", "", "hspace"},
     {"*{", "\n", "vspace"},
     {"[{", "", "color hphantom pagecolor vphantom xleftarrow xrightarrow"},
     {"[{", "[%(2)s]", "footnote"},
     {"[{", "√(%(2)s)", "sqrt"},
     {"[{[{", "", "colorlet"},
     {"[{[{{", "%(5)s", "fcolorbox"},
     {"[{{", "%(3)s", "colorbox textcolor"},
     {"[{{{", "", "definecolor providecolor"},
     {"{", "", "label mbox textmd textsf texttt textup"},
     {"{", "%s",
      "ensuremath overbrace overbracket overgroup overleftarrow overleftharpoon "
      "overleftrightarrow overline overlinesegment overrightarrow overrightharpoon "
      "underbrace underbracket undergroup underleftarrow underleftrightarrow underline "
      "underlinesegment underrightarrow widehat wideparen widetilde"},
     {"{", "(<ref>)", "eqref"},
     {"{", "*", "emph mathrm text textbf textit textrm textsc textsl"},
     {"{", "<%s>", "url"},
     {"{", "<Ref>", "Cref"},
     {"{", "<ref>", "autoref cref ref"},
     {"{", "|%s⟩", "ket"},
     {"{", "⟨%s|", "bra"},
     {"{{", "%s/%s", "frac nicefrac"},
     {"{{", "|%s⟩⟨%s|", "ketbra"},
     {"{{", "⟨%s|%s⟩", "braket"}}};

/// A command that puts a sign on or through each character of its argument.
struct latex_accent {
  std::string_view name, sign;
};

inline constexpr std::array<latex_accent, 26> latex_accents{
    {{"\"", "\xCC\x88"},    {"'", "\xCC\x81"},     {".", "\xCC\x87"},     {"=", "\xCC\x84"}, {"H", "\xCC\x8B"},
     {"^", "\xCC\x82"},     {"`", "\xCC\x80"},     {"acute", "\xCC\x81"}, {"b", "\xCC\xB1"}, {"bar", "\xCC\x85"},
     {"breve", "\xCC\x86"}, {"c", "\xCC\xA7"},     {"check", "\xCC\x8C"}, {"d", "\xCC\xA3"}, {"ddot", "\xCC\x88"},
     {"dot", "\xCC\x87"},   {"grave", "\xCC\x80"}, {"hat", "\xCC\x82"},   {"k", "\xCC\xA8"}, {"not", "\xCC\xB8"},
     {"r", "\xCC\x8A"},     {"tilde", "\xCC\x83"}, {"u", "\xCC\x86"},     {"v", "\xCC\x8C"}, {"vec", "\xE2\x83\x97"},
     {"~", "\xCC\x83"}}};

/// Letters of a mathematical alphabet: the code points of A and a. Some letters are older than the alphabets: pairs of
/// an ASCII letter and its code point.
struct latex_alphabet {
  std::string_view name;
  char32_t upper, lower;
  std::u32string_view older;
};

inline constexpr std::array<latex_alphabet, 8> latex_alphabets{
    {{"mathbf", 0x1D400, 0x1D41A, U""},
     {"mathit", 0x1D434, 0x1D44E, U"h\U0000210E"},
     {"mathsf", 0x1D5A0, 0x1D5BA, U""},
     {"mathbb", 0x1D538, 0x1D552, U"C\U00002102H\U0000210DN\U00002115P\U00002119Q\U0000211AR\U0000211DZ\U00002124"},
     {"mathtt", 0x1D670, 0x1D68A, U""},
     {"mathcal", 0x1D49C, 0x1D4B6,
      U"B\U0000212CE\U00002130F\U00002131H\U0000210BI\U00002110L\U00002112M\U00002133R\U0000211Be\U0000212Fg\U0000210Ao"
      U"\U00002134"},
     {"mathscr", 0x1D49C, 0x1D4B6,
      U"B\U0000212CE\U00002130F\U00002131H\U0000210BI\U00002110L\U00002112M\U00002133R\U0000211Be\U0000212Fg\U0000210Ao"
      U"\U00002134"},
     {"mathfrak", 0x1D504, 0x1D51E, U"C\U0000212DH\U0000210CI\U00002111R\U0000211CZ\U00002128"}}};

/// A command without arguments and its text.
struct latex_symbol {
  std::string_view name, text;
};

/// The symbols whose text has spaces or signs that would not be seen in latex_symbol_table.
inline constexpr std::array<latex_symbol, 12> latex_spaces{{{" ", " "},
                                                            {",", " "},
                                                            {"-", "\xC2\xAD"},
                                                            {":", " "},
                                                            {";", " "},
                                                            {"ddddot", "\xE2\x83\x9C"},
                                                            {"dddot", "\xE2\x83\x9B"},
                                                            {"enskip", "\xE2\x80\x82"},
                                                            {"liminf", "lim inf"},
                                                            {"limsup", "lim sup"},
                                                            {"qquad", "    "},
                                                            {"quad", "  "}}};

/// Names, each followed by its text.
inline constexpr std::string_view latex_symbol_table =
    "# # $ $ % % & & AA Å AE Æ Alpha Α Angle ⦜ Beta Β Bumpeq ≎ Cap ⋒ Chi Χ Colon ∷ Cup ⋓ Delta Δ Digamma Ϝ "
    "DownArrowUpArrow ⇵ Downarrow ⇓ Epsilon Ε Equal ⩵ Eta Η Gamma Γ Iota Ι Kappa Κ L Ł Lambda Λ LeftTriangleBar ⧏ "
    "Leftarrow ⇐ Leftrightarrow ⇔ Lleftarrow ⇚ Longleftarrow ⟸ Longleftrightarrow ⟺ Longrightarrow ⟹ Lsh ↰ Mu Μ "
    "NestedGreaterGreater ⪢ NestedLessLess ⪡ Nu Ν O Ø OE Œ Omega Ω Omicron Ο Phi Φ Pi Π Psi Ψ Rho Ρ "
    "RightTriangleBar ⧐ Rightarrow ⇒ Rrightarrow ⇛ Rsh ↱ Sigma Σ Subset ⋐ Supset ⋑ Tau Τ Theta Θ Uparrow ⇑ "
    "Updownarrow ⇕ Upsilon Υ VDash ⊫ Vdash ⊩ Vert ‖ Vvdash ⊪ Xi Ξ Zeta Ζ _ _ aa å ae æ aleph ℵ allequal ≌ alpha α "
    "amalg ⨿ angle ∠ approx ≈ approxeq ≊ approxnotequal ≆ arccos arccos arccosh arccosh arcsin arcsin "
    "arcsinh arcsinh arctan arctan arctanh arctanh arrowwaveleft ↜ arrowwaveright ↝ ast ∗ asymp ≍ backepsilon ϶ "
    "backprime ‵ backsim ∽ backsimeq ⋍ backslash \\ barwedge ⌅ because ∵ beta β beth ℶ between ≬ bigcap ⋂ bigcirc ◯ "
    "bigcup ⋃ bigoplus ⊕ bigotimes ⊗ bigtriangledown ▽ bigtriangleup △ bigvee ⋁ bigwedge ⋀ blacklozenge ⧫ "
    "blacksquare ▪ blacktriangle ▴ blacktriangledown ▾ blacktriangleleft ◂ blacktriangleright ▸ bowtie ⋈ boxdot ⊡ "
    "boxminus ⊟ boxplus ⊞ boxtimes ⊠ bullet ∙ bumpeq ≏ cap ∩ cdot · cdots ⋯ chi χ circ ∘ circeq ≗ circlearrowleft ↺ "
    "circlearrowright ↻ circledS Ⓢ circledast ⊛ circledcirc ⊚ circleddash ⊝ complement ∁ cong ≅ coprod ∐ cos cos "
    "cosh cosh cup ∪ curlyeqprec ⋞ curlyeqsucc ⋟ curlyvee ⋎ curlywedge ⋏ curvearrowleft ↶ curvearrowright ↷ dag † "
    "dagger † daleth ℸ dashv ⊣ dblarrowupdown ⇅ ddots ⋱ delta δ diagup ╱ diamond ♢ digamma ϝ div ÷ divideontimes ⋇ "
    "doteq ≐ doteqdot ≑ dotplus ∔ dots … dotsb … dotsc … dotsi … dotsm … dotso … downarrow ↓ downdownarrows ⇊ "
    "downharpoonleft ⇃ downharpoonright ⇂ downslopeellipsis ⋱ ell ℓ emptyset ∅ epsilon ϵ eqcirc ≖ eqslantgtr ⪖ "
    "eqslantless ⪕ equiv ≡ estimates ≙ eta η exists ∃ exp exp fallingdotseq ≒ flat ♭ forall ∀ frown ⌢ gamma γ ge ≥ "
    "geq ≥ geqq ≧ geqslant ⩾ gg ≫ gimel ℷ gnapprox ⪊ gneq ⪈ gneqq ≩ gnsim ⋧ greaterequivlnt ≳ gtrapprox ⪆ gtrdot ⋗ "
    "gtreqless ⋛ gtreqqless ⪌ gtrless ≷ gtrsim ≳ hbar ħ homothetic ∻ hookleftarrow ↩ hookrightarrow ↪ hslash ℏ i ı "
    "iddots ⋰ iiint ∭ iint ∬ in ∈ inf inf infty ∞ int ∫ intercal ⊺ iota ι j ȷ kappa κ l ł lVert ‖ lambda λ langle ⟨ "
    "lazysinv ∾ lbrace { lceil ⌈ ldots … le ≤ leftarrow ← leftarrowtail ↢ leftharpoondown ↽ leftharpoonup ↼ "
    "leftleftarrows ⇇ leftrightarrow ↔ leftrightarrows ⇆ leftrightharpoons ⇋ leftrightsquigarrow ↭ leftthreetimes ⋋ "
    "leq ≤ leqq ≦ leqslant ⩽ lessapprox ⪅ lessdot ⋖ lesseqgtr ⋚ lesseqqgtr ⪋ lessequivlnt ≲ lessgtr ≶ lesssim ≲ "
    "lfloor ⌊ lim lim ll ≪ llcorner ⌞ lmoustache ⎰ ln ln lnapprox ⪉ lneq ⪇ lneqq ≨ lnot ¬ lnsim ⋦ log log "
    "longleftarrow ⟵ longleftrightarrow ⟷ longmapsto ⟼ longrightarrow ⟶ looparrowleft ↫ looparrowright ↬ lozenge ◊ "
    "lrcorner ⌟ ltimes ⋉ lvert | mapsto ↦ max max measuredangle ∡ mho ℧ mid | min min mp ∓ mu μ multimap ⊸ "
    "nLeftarrow ⇍ nLeftrightarrow ⇎ nRightarrow ⇏ nVDash ⊯ nVdash ⊮ nabla ∇ natural ♮ nearrow ↗ neq ≠ nexists ∄ "
    "ngeq ≱ ngtr ≯ ni ∋ nleftarrow ↚ nleftrightarrow ↮ nleq ≰ nless ≮ nmid ∤ notgreaterless ≹ notin ∉ "
    "notlessgreater ≸ nparallel ∦ nprec ⊀ nrightarrow ↛ nsubseteq ⊈ nsucc ⊁ nsupseteq ⊉ ntriangleleft ⋪ "
    "ntrianglelefteq ⋬ ntriangleright ⋫ ntrianglerighteq ⋭ nu ν nvDash ⊭ nvdash ⊬ nwarrow ↖ o ø odot ⊙ oe œ oint ∮ "
    "omega ω omicron ο ominus ⊖ oplus ⊕ oslash ⊘ otimes ⊗ parallel ∥ partial ∂ perp ⊥ phi ϕ pi π pitchfork ⋔ pm ± "
    "prec ≺ precapprox ⪷ preccurlyeq ≼ precedesnotsimilar ⋨ preceq ≼ precnapprox ⪹ precneqq ⪵ precsim ≾ prime ' "
    "prod ∏ propto ∝ psi ψ rVert ‖ rangle ⟩ rbrace } rceil ⌉ rfloor ⌋ rho ρ rightangle ∟ rightanglearc ⊾ "
    "rightarrow → rightarrowtail ↣ rightharpoondown ⇁ rightharpoonup ⇀ rightleftarrows ⇄ rightleftharpoons ⇌ "
    "rightrightarrows ⇉ rightsquigarrow ⇝ rightthreetimes ⋌ risingdotseq ≓ rmoustache ⎱ rtimes ⋊ rvert | searrow ↘ "
    "setminus ∖ sharp ♯ sigma σ sim ∼ simeq ≃ sin sin sinh sinh smallsetminus ∖ smile ⌣ sphericalangle ∢ sqcap ⊓ "
    "sqcup ⊔ sqsubset ⊏ sqsubseteq ⊑ sqsupset ⊐ sqsupseteq ⊒ square □ ss ß star ⋆ starequal ≛ subset ⊂ subseteq ⊆ "
    "subseteqq ⫅ subsetneq ⊊ subsetneqq ⫋ succ ≻ succapprox ⪸ succcurlyeq ≽ succeq ≽ succnapprox ⪺ succneqq ⪶ "
    "succnsim ⋩ succsim ≿ sum ∑ sup sup supset ⊃ supseteq ⊇ supseteqq ⫆ supsetneq ⊋ supsetneqq ⫌ surd √ "
    "surfintegral ∯ swarrow ↙ tan tan tanh tanh tau τ textbackslash \\ textbullet • textcent ¢ textdegree ° textdiv ÷ "
    "textellipsis … textemdash — textendash – texteuro € textfrac %s/%s textonehalf ½ textonequarter ¼ textpm ± "
    "textsterling £ textthreequarters ¾ texttimes × textyen ¥ therefore ∴ theta θ tildetrpl ≋ times × to → top ⊤ "
    "triangledown ▿ triangleleft ◃ trianglelefteq ⊴ triangleq ≜ triangleright ▹ trianglerighteq ⊵ twoheadleftarrow ↞ "
    "twoheadrightarrow ↠ udots ⋰ ulcorner ⌜ uparrow ↑ updownarrow ↕ upharpoonleft ↿ upharpoonright ↾ uplus ⊎ "
    "upsilon υ upslopeellipsis ⋰ upuparrows ⇈ urcorner ⌝ varepsilon ε varkappa ϰ varnothing ∅ varphi φ varpi ϖ "
    "varrho ϱ varsigma ς vartheta ϑ vartriangle ▵ vartriangleleft ⊲ vartriangleright ⊳ vdash ⊢ vdots ⋮ vee ∨ "
    "veebar ⊻ vert | verymuchgreater ⋙ verymuchless ⋘ volintegral ∰ wedge ∧ wp ℘ wr ≀ xi ξ zeta ζ { { } } ";

/// What becomes of a text.
enum class latex_outcome {
  converted,
  refused,  ///< pylatexenc raises an exception
  unknown,  ///< deeper than the reader goes, or with commands that are left out here
};

/// The kinds of arguments that a command takes.
std::string_view latex_arguments(std::string_view name);

/// The text of a command; `given` holds its arguments, null if it takes none. An unknown command has no text.
std::string latex_command_text(std::string_view name, const std::vector<std::string>* given, latex_outcome& outcome);

/// The text of the signs ---, --, ``, '', !`, ?`, & and ~.
std::string_view latex_special_text(std::string_view signs);

}  // namespace verify::detail
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_VERIFY)
RLCORE_BEGIN
namespace verify::detail {

inline const std::unordered_map<std::string_view, std::string_view>& latex_symbols() {
  static const auto symbols = [] {
    std::unordered_map<std::string_view, std::string_view> map;
    for (const latex_symbol& s : latex_spaces) map.emplace(s.name, s.text);
    const std::vector<std::string_view> words = split(latex_symbol_table, " ");
    for (std::size_t i = 0; i + 1 < words.size(); i += 2) map.emplace(words[i], words[i + 1]);
    return map;
  }();
  return symbols;
}

inline const std::unordered_map<std::string_view, latex_command>& latex_commands_by_name() {
  static const auto commands = [] {
    std::unordered_map<std::string_view, latex_command> map;
    for (const latex_commands& group : latex_command_table)
      for (const std::string_view name : split(group.names, " "))
        map.emplace(name, latex_command{group.arguments, group.text});
    return map;
  }();
  return commands;
}

RLCORE_INLINE std::string_view latex_arguments(std::string_view name) {
  const auto has_name = [&](const auto& entry) { return entry.name == name; };
  if (std::any_of(latex_alphabets.begin(), latex_alphabets.end(), has_name)) return "{";
  if (std::any_of(latex_accents.begin(), latex_accents.end(), has_name)) return "{";
  const auto found = latex_commands_by_name().find(name);
  return found == latex_commands_by_name().end() ? std::string_view{} : found->second.arguments;
}

/// The text with its letters in a mathematical alphabet.
inline std::string in_alphabet(const latex_alphabet& alphabet, std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (letter_bytes(std::string_view(&c, 1), 0) == 0) {
      out += c;
      continue;
    }
    const bool upper = c <= 'Z';
    char32_t code = (upper ? alphabet.upper : alphabet.lower) + static_cast<char32_t>(c - (upper ? 'A' : 'a'));
    for (std::size_t i = 0; i + 1 < alphabet.older.size(); i += 2)
      if (alphabet.older[i] == static_cast<char32_t>(c)) code = alphabet.older[i + 1];
    if (code >= 0x10000) out += static_cast<char>(0xF0 | code >> 18);
    out += static_cast<char>(code >= 0x10000 ? 0x80 | (code >> 12 & 0x3F) : 0xE0 | code >> 12);
    out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
  return out;
}

/// The pattern with the arguments in their places.
inline std::string filled(std::string_view pattern, const std::vector<std::string>* given, latex_outcome& outcome) {
  std::string out;
  if (pattern == "*") {
    if (given)
      for (const std::string& argument : *given) out += argument;
    return out;
  }
  std::size_t next = 0;
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    const std::string_view rest = pattern.substr(at);
    if (rest.starts_with("%s") && given) {
      out += (*given)[next++];
      ++at;
    } else if (rest.starts_with("%(")) {
      if (!given) return outcome = latex_outcome::refused, "";
      out += (*given)[static_cast<std::size_t>(rest[2] - '1')];
      at += 4;
    } else {
      out += pattern[at];
    }
  }
  return out;
}

/// Whether pylatexenc knows a command that stands in none of the tables here.
inline bool is_left_out(std::string_view name) {
  for (const std::string_view prefix : {"text", "CYR", "cyr", "cite", "Cite"})
    if (name.starts_with(prefix)) return true;
  static constexpr std::string_view names =
      " author bibliography chapter date documentclass exercise hint hints hinweis hinweise href hypersetup include "
      "includegraphics input item keywords maketitle newcommand newenvironment paragraph part providecommand "
      "renewcommand section subparagraph subsection subsubsection texorpdfstring title today uebung usepackage verb ";
  return contains(names, " " + std::string(name) + " ");
}

RLCORE_INLINE std::string latex_command_text(std::string_view name, const std::vector<std::string>* given,
                                             latex_outcome& outcome) {
  for (const latex_alphabet& alphabet : latex_alphabets)
    if (alphabet.name == name) return given && !given->empty() ? in_alphabet(alphabet, given->front()) : "";
  for (const latex_accent& accent : latex_accents)
    if (accent.name == name) {
      std::string out;
      const std::string_view letters = given && !given->empty() ? strip(given->front()) : " ";
      for (std::size_t at = 0; at < letters.size(); at += code_point_bytes(letters, at)) {
        const std::string_view letter = letters.substr(at, code_point_bytes(letters, at));
        if (name == "not" && (letter == "=" || letter == "∈"))
          out += letter == "=" ? "≠" : "∉";
        else
          out.append(letter == "ı" ? "i" : letter == "ȷ" ? "j" : letter).append(accent.sign);
      }
      return out;
    }
  if (const auto command = latex_commands_by_name().find(name); command != latex_commands_by_name().end())
    return filled(command->second.text, given, outcome);
  if (const auto symbol = latex_symbols().find(name); symbol != latex_symbols().end())
    return std::string(symbol->second);
  if (is_left_out(name)) outcome = latex_outcome::unknown;
  return "";
}

RLCORE_INLINE std::string_view latex_special_text(std::string_view signs) {
  static constexpr std::array<latex_symbol, 8> texts{
      {{"---", "—"}, {"--", "–"}, {"``", "“"}, {"''", "”"}, {"!`", "¡"}, {"?`", "¿"}, {"&", "   "}, {"~", "\xC2\xA0"}}};
  return std::find_if(texts.begin(), texts.end(), [&](const latex_symbol& s) { return s.name == signs; })->text;
}

}  // namespace verify::detail
RLCORE_END
#endif
