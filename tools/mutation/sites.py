"""The places of C++ sources that can be changed, and the changes, from which tools/mutate.py draws.

A change is written as an expression that holds both forms and chooses at run time, `(on(7) ? (a) <= (b) : (a) < (b))`, so that one build holds all mutants.
The places come from Clang's syntax tree (Debian's python3-clang-14), so that types are known and nothing is changed inside comments, strings or constant expressions.
"""

import dataclasses
import re

from clang import cindex
from clang.cindex import CursorKind as Kind, TypeKind

ON = '::millrace::mutation::on({id})'

# One replacement for each comparison, which differs at equality or in direction.
COMPARISONS = {'<': '<=', '<=': '<', '>': '>=', '>=': '>', '==': '!=', '!=': '=='}
SIGNS = {'+': '-', '-': '+', '*': '/', '/': '*'}
LOGIC = {'&&': '||', '||': '&&'}
UPDATES = {'+=': '-=', '-=': '+=', '*=': '/=', '|=': '&=', '&=': '|='}

INTEGERS = {TypeKind.SHORT, TypeKind.USHORT, TypeKind.INT, TypeKind.UINT, TypeKind.LONG, TypeKind.ULONG, TypeKind.LONGLONG, TypeKind.ULONGLONG, TypeKind.UCHAR,
            TypeKind.SCHAR, TypeKind.CHAR_S}
NUMBERS = INTEGERS | {TypeKind.FLOAT, TypeKind.DOUBLE}

FUNCTIONS = {Kind.FUNCTION_DECL, Kind.CXX_METHOD, Kind.CONSTRUCTOR, Kind.DESTRUCTOR, Kind.CONVERSION_FUNCTION, Kind.FUNCTION_TEMPLATE, Kind.LAMBDA_EXPR}
# Their operands must be constants, or their text is not where the syntax tree says.
CLOSED = {Kind.STATIC_ASSERT, Kind.ENUM_DECL, Kind.TEMPLATE_TYPE_PARAMETER, Kind.TEMPLATE_NON_TYPE_PARAMETER, Kind.ALIGNED_ATTR, Kind.TYPE_REF, Kind.CONCEPT_DECL,
          Kind.FIELD_DECL} if hasattr(Kind, 'CONCEPT_DECL') else {Kind.STATIC_ASSERT, Kind.ENUM_DECL, Kind.TYPE_REF, Kind.FIELD_DECL}


@dataclasses.dataclass(frozen=True)
class Site:
    """One change of one place: `source[begin:end]` becomes `replacement`, in which {id} is the mutant's identifier."""
    path: str
    line: int
    begin: int
    end: int
    operator: str
    before: str
    after: str
    replacement: str
    context: str  # the line of code that contains the place, or its beginning

    def text(self):
        return f'{self.path}:{self.line}: {self.operator}: {" ".join(self.before.split())} -> {" ".join(self.after.split())}'


def escaped(text):
    return text.replace('{', '{{').replace('}', '}}')


def known(cursor):
    """Whether the binding has a name for this kind of cursor (it lacks a few rare ones, std::bit_cast among them)."""
    try:
        return cursor.kind is not None
    except ValueError:
        return False


def choice(after, before):
    return f'({ON} ? {escaped(after)} : {escaped(before)})'


class Finder:
    def __init__(self, path, source):
        self.path, self.source, self.sites = path, source, []
        self.lines = [0]
        for match in re.finditer(b'\n', source):
            self.lines.append(match.end())

    # -- text ---------------------------------------------------------------------------------------------------------------------------------

    def span(self, cursor):
        """The bytes of a cursor, or None if it is in another file or within a macro expansion."""
        extent = cursor.extent
        if extent.start.file is None or extent.end.file is None or extent.start.file.name != self.name or extent.end.file.name != self.name:
            return None
        begin, end = extent.start.offset, extent.end.offset
        return (begin, end) if begin < end else None

    def text(self, span):
        return self.source[span[0]:span[1]].decode()

    def add(self, span, operator, before, after, replacement):
        if '#' in before or 'MILLRACE_' in before and operator != 'drop statement':
            return
        line = self.source.count(b'\n', 0, span[0]) + 1
        end_of_line = self.source.find(b'\n', span[0])
        context = self.source[self.lines[line - 1]:end_of_line if end_of_line >= 0 else len(self.source)].decode()
        self.sites.append(Site(self.path, line, span[0], span[1], operator, before, after, replacement, ' '.join(context.split())))

    # -- the walk -----------------------------------------------------------------------------------------------------------------------------

    def find(self, unit):
        self.name = unit.spelling
        for cursor in filter(known, unit.cursor.get_children()):
            if cursor.location.file is not None and cursor.location.file.name == self.name:
                self.visit(cursor, None, False)
        return self.sites

    def visit(self, cursor, parent, inside):
        if cursor.kind in CLOSED:
            return
        if cursor.kind in FUNCTIONS:
            span = self.span(cursor)
            if span is None or re.search(r'\b(constexpr|consteval)\b', self.text(span).split('{')[0]):
                return
            inside = True
        if cursor.kind == Kind.VAR_DECL:
            span = self.span(cursor)
            if span is None or re.match(r'\s*((static|inline)\s+)*constexpr\b', self.text(span)):
                return
        children = [child for child in cursor.get_children() if known(child)]
        if inside:
            self.expression(cursor, children)
            if cursor.kind == Kind.COMPOUND_STMT:
                for child in children:
                    self.statement(child)
        for index, child in enumerate(children):
            if cursor.kind == Kind.CASE_STMT and index == 0:
                continue
            self.visit(child, cursor, inside)

    def statement(self, cursor):
        if cursor.kind not in {Kind.CALL_EXPR, Kind.BINARY_OPERATOR, Kind.COMPOUND_ASSIGNMENT_OPERATOR, Kind.UNARY_OPERATOR, Kind.CONTINUE_STMT, Kind.UNEXPOSED_EXPR, Kind.DO_STMT}:
            return
        span = self.span(cursor)
        if cursor.kind == Kind.DO_STMT and (span is None or not self.source[span[0]:].startswith(b'MILLRACE_CHECK(')):
            return
        if span is None or not self.source[span[1]:span[1] + 8].lstrip().startswith(b';'):
            return
        text = self.text(span)
        if re.search(r'\b(reserve|shrink_to_fit)\(', text):  # no result depends on these
            return
        self.add(span, 'drop statement', text, '', f'if (!{ON}) {escaped(text)}')

    def operator_between(self, left, right):
        """The operator between two operands, without parentheses that close the left or open the right one."""
        between = re.sub(r'//.*|/\*.*?\*/', '', self.source[left[1]:right[0]].decode())
        return between.strip()

    def expression(self, cursor, children):
        kind = cursor.kind
        span = self.span(cursor)
        if span is None:
            return
        text = self.text(span)
        if kind == Kind.BINARY_OPERATOR and len(children) == 2:
            spans = [self.span(child) for child in children]
            if None in spans or spans[0][0] != span[0] or spans[1][1] != span[1]:
                return
            operator = self.operator_between(*spans)
            left, right = self.text(spans[0]), self.text(spans[1])
            kinds = [child.type.get_canonical().kind for child in children]
            if operator in COMPARISONS and not (operator in ('<', '<=', '>', '>=') and kinds[0] not in NUMBERS):
                other = COMPARISONS[operator]
                after = f'{left} {other} {right}'
                self.add(span, 'other comparison', text, after, choice(after, text))
            elif operator in SIGNS and all(kind in NUMBERS for kind in kinds):
                after = f'{left} {SIGNS[operator]} ({right})'
                if operator == '*':
                    return
                self.add(span, 'other sign', text, after, choice(after, text))
                if all(kind in INTEGERS for kind in kinds) and operator in '+-':
                    after = f'{text} + 1'
                    self.add(span, 'off by one', text, after, choice(after, text))
            elif operator in LOGIC:
                after = f'({left}) {LOGIC[operator]} ({right})'
                self.add(span, 'other logic', text, after, choice(after, text))
        elif kind == Kind.COMPOUND_ASSIGNMENT_OPERATOR and len(children) == 2:
            spans = [self.span(child) for child in children]
            if None in spans:
                return
            operator = self.operator_between(*spans)
            if operator in UPDATES and children[0].type.get_canonical().kind in NUMBERS:
                after = f'{self.text(spans[0])} {UPDATES[operator]} {self.text(spans[1])}'
                self.add(span, 'other sign', text, after, choice(after, text))
        elif kind == Kind.UNARY_OPERATOR and text.startswith('-') and len(children) == 1:
            self.add(span, 'other sign', text, text[1:], choice(text[1:], text))
        elif kind == Kind.UNARY_OPERATOR and text.startswith('!') and len(children) == 1:
            self.add(span, 'other logic', text, text[1:], choice(f'!!{text[1:]}', text))
        elif kind == Kind.INTEGER_LITERAL and re.fullmatch(r'\d+', text):
            self.add(span, 'off by one', text, f'{text} + 1', f'({escaped(text)} + {ON})' if text != '0' else f'int({ON})')
        elif kind == Kind.CXX_BOOL_LITERAL_EXPR:
            after = 'false' if text == 'true' else 'true'
            self.add(span, 'other logic', text, after, f'({ON} != {text})')
        elif kind == Kind.IF_STMT and children and children[0].kind not in {Kind.DECL_STMT, Kind.VAR_DECL}:
            condition = self.span(children[0])
            if condition is not None and 'constexpr' not in text[:16] and ';' not in self.source[span[0]:condition[0]].decode():
                before = self.text(condition)
                self.add(condition, 'other logic', before, f'!({before})', f'({ON} != static_cast<bool>({escaped(before)}))')
        elif kind == Kind.CALL_EXPR:
            self.swap(cursor)

    def swap(self, cursor):
        if cursor.spelling in ('min', 'max', 'swap'):
            return
        arguments = [argument for argument in cursor.get_arguments() if argument is not None and known(argument)]
        for first, second in zip(arguments, arguments[1:]):
            spans = self.span(first), self.span(second)
            if None in spans or spans[0][1] >= spans[1][0]:
                continue
            kinds = [argument.type.get_canonical() for argument in (first, second)]
            texts = self.text(spans[0]), self.text(spans[1])
            if kinds[0].spelling.removeprefix('const ') != kinds[1].spelling.removeprefix('const ') or texts[0] == texts[1]:
                continue
            if any(text.startswith('{') or 'std::move' in text or '[&' in text or '[=' in text for text in texts):
                continue
            if kinds[0].kind not in NUMBERS and not all(re.fullmatch(r'[\w.>()\[\]-]+', text) for text in texts):
                continue
            between = self.source[spans[0][1]:spans[1][0]].decode()
            if between.strip() != ',':
                continue
            span = (spans[0][0], spans[1][1])
            replacement = f'{choice(texts[1], texts[0])}{escaped(between)}{choice(texts[0], texts[1])}'
            self.add(span, 'swap arguments', self.text(span), f'{texts[1]}, {texts[0]}', replacement)


def find_sites(path, absolute, arguments):
    """All sites of one source. `arguments` are those of its compilation, without compiler, input and output."""
    with open(absolute, 'rb') as file:
        source = file.read()
    unit = cindex.Index.create().parse(absolute, args=arguments)
    return Finder(path, source).find(unit)
